//! How long it takes to write a schedule into memory that is there.

use criterion::{Criterion, criterion_group, criterion_main};
use refrain_collectives::choice::Table;
use refrain_collectives::{Algorithm, Arguments, Blocks, Call, Group, Hosts, Schedule};
use std::hint::black_box;

fn schedules(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("schedule");
    let allreduce = |count| Arguments::Allreduce {
        count,
        commutative: true,
    };
    let blocks = Blocks::Even(1);
    let alltoall = Arguments::Alltoall {
        send: blocks,
        receive: blocks,
    };
    for (name, algorithm, size, arguments) in [
        (
            "allreduce recursive-doubling",
            Algorithm::RecursiveDoubling,
            2,
            allreduce(1),
        ),
        (
            "allreduce recursive-doubling",
            Algorithm::RecursiveDoubling,
            1024,
            allreduce(1),
        ),
        (
            "allreduce rabenseifner",
            Algorithm::Rabenseifner,
            1024,
            allreduce(1 << 20),
        ),
        ("alltoall linear", Algorithm::Linear, 65_536, alltoall),
    ] {
        let (table, mut schedule) = (Table::default(), Schedule::default());
        group.bench_function(format!("{name} {size}"), |bench| {
            bench.iter(|| {
                let call = Call {
                    group: Group { size, me: 1 },
                    hosts: Hosts::APART,
                    arguments: black_box(arguments),
                    in_place: false,
                    element_bytes: 8,
                };
                schedule.clear();
                table.schedule(algorithm, &call, &mut schedule);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, schedules);
criterion_main!(benches);
