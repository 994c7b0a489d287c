//! Prints what algorithms cost: `cost [PLACES [PLACES_OF_A_HOST [BYTES …]]]`.

use refrain_collectives::cost::{Case, Method, Model};
use refrain_collectives::{Algorithm, Operation};

const OPERATIONS: [Operation; 10] = [
    Operation::Barrier,
    Operation::Bcast,
    Operation::Gather,
    Operation::Scatter,
    Operation::Allgather,
    Operation::Alltoall,
    Operation::Reduce,
    Operation::Allreduce,
    Operation::ReduceScatter,
    Operation::Scan,
];

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|it| it.parse().expect("a number"));
    let size = arguments.next().unwrap_or(1024);
    let host_places = arguments.next().unwrap_or(1).max(1);
    let [size, host_places] =
        [size, host_places].map(|it| u32::try_from(it).expect("less than 2^32 places"));
    let mut lengths: Vec<u64> = arguments.collect();
    if lengths.is_empty() {
        lengths = vec![8, 1 << 16, 1 << 20];
    }
    println!(
        "{size} places, {host_places} on a host, {:?}",
        Model::default()
    );
    println!("critical path of: * one place among alike; + scatter, then allgather");
    println!(
        "{:<15}{:<19}{:>9}{:>15}{:>12}{:>12}{:>15}",
        "collective", "algorithm", "bytes", "messages", "sent B", "logged B", "path us"
    );
    for operation in OPERATIONS {
        for bytes in lengths.iter().copied() {
            let bytes = if operation == Operation::Barrier {
                0
            } else {
                bytes
            };
            for algorithm in operation.algorithms() {
                // A ring whose blocks are mostly empty: slow to count, and of no use.
                let is_ring = matches!(algorithm, Algorithm::Ring | Algorithm::ScatterAllgather);
                let is_split = matches!(operation, Operation::Bcast | Operation::Allreduce);
                if is_ring && is_split && bytes < size.into() {
                    continue;
                }
                let has_hosts = 1 < host_places && host_places < size;
                if *algorithm == Algorithm::Hierarchical && !has_hosts {
                    continue;
                }
                print_row(Case {
                    operation,
                    algorithm: *algorithm,
                    size,
                    host_places,
                    bytes,
                });
            }
            if operation == Operation::Barrier {
                break;
            }
        }
    }
}

fn print_row(case: Case) {
    let cost = case.cost(&Model::default());
    let mark = match cost.method {
        Method::AllPlaces => ' ',
        Method::OnePlace => '*',
        Method::Sum => '+',
    };
    println!(
        "{:<15}{:<19}{:>9}{:>15}{:>12.3e}{:>12.3e}{:>14.1}{mark}",
        case.operation,
        case.algorithm,
        case.bytes,
        cost.messages,
        cost.bytes as f64,
        cost.logged_bytes as f64,
        cost.critical_path_ns / 1000.0,
    );
}
