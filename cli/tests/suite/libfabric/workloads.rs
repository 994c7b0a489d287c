//! Every workload prints the same on libfabric as on shared memory.

use crate::launched::{Ended, refrain, run};
use crate::libfabric::installed::{has, libraries};
use std::path::PathBuf;

const WORKLOADS: [&str; 6] = [
    "token-ring --rounds 50 --bytes 100",
    "token-ring --rounds 5 --bytes 3000001",
    "stencil --dimensions 2 --size 40 --iterations 30 --verify --print-grid-hash",
    "any-source --tasks 60 --bytes 30000",
    "collectives --seed 5 --rounds 20 --patience 30",
    "chaos --seed 5 --operations 1500 --patience 30",
];

fn job(fabric: &str, library: Option<&PathBuf>, protocol: &str, workload: &str) -> Ended {
    let mut command = refrain();
    command.args(["run", "-n", "3", "--no-prefix", "--fabric", fabric]);
    command.args(["--protocol", protocol]);
    if let Some(library) = library {
        command.arg("--libfabric").arg(library);
    }
    command.args(["--", env!("CARGO_BIN_EXE_refrain-workload")]);
    run(command.args(workload.split_whitespace()))
}

/// All workloads on one provider, with each library and protocol.
fn serves_all_workloads(provider: &str) {
    for library in libraries() {
        if !has(library.as_ref(), provider) {
            continue;
        }
        for workload in WORKLOADS {
            let expected = job("shm", None, "none", workload).expect(0).out;
            for protocol in ["none", "pessimist"] {
                println!("{workload} with {protocol} by {provider} of {library:?}");
                let fabric = format!("ofi:{provider}");
                let ended = job(&fabric, library.as_ref(), protocol, workload).expect(0);
                assert_eq!(ended.out, expected);
            }
        }
    }
}

#[test]
fn tcp_serves_all_workloads() {
    serves_all_workloads("tcp");
}

#[test]
fn shm_serves_all_workloads() {
    serves_all_workloads("shm");
}

/// `ofi` alone is the best provider, for all pairs.
#[test]
fn the_best_provider_serves_all_pairs() {
    for library in libraries() {
        let mut command = refrain();
        command.args(["run", "-n", "3", "-v", "--fabric", "ofi"]);
        if let Some(library) = &library {
            command.env("REFRAIN_LIBFABRIC", library);
        }
        let ended = run(command.args(["--", "refrain-workload", "token-ring"])).expect(0);
        assert!(
            ended.err.contains("fabric ofi:") && ended.err.contains("3 pairs"),
            "{}",
            ended.err
        );
    }
}
