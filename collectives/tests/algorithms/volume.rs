//! Messages and elements of algorithms, against the formulas of the literature.

use crate::call;
use crate::group_run::{Buffers, run, unwritten};
use refrain_collectives::check::{Sends, Volume};
use refrain_collectives::choice::Table;
use refrain_collectives::{Action, Algorithm, Arguments, Blocks, Prefix, Schedule, Step};

/// Elements of a vector or block that all sizes divide.
const COUNT: u64 = 96;

fn volume(size: u32, algorithm: Algorithm, arguments: Arguments) -> Volume {
    let long = || vec![unwritten::<u64>(COUNT * u64::from(size)); size as usize];
    let buffers = Buffers {
        inputs: long(),
        outputs: long(),
    };
    let call = |me| call(size, me, false, arguments);
    run(algorithm, &call, &buffers, Sends::Blocking, 7).volume
}

/// For sizes that are powers of two: (collective, algorithm, messages, elements), of all places.
#[test]
fn volumes_are_those_of_the_literature() {
    use Algorithm::*;
    for (size, log) in [(1, 0), (2, 1), (4, 2), (8, 3), (16, 4), (32, 5)] {
        let (p, n) = (u64::from(size), COUNT);
        let blocks = Blocks::Even(n);
        let gather = Arguments::Gather {
            root: 0,
            count: n,
            blocks,
        };
        let scatter = Arguments::Scatter {
            root: 0,
            count: n,
            blocks,
        };
        let bcast = Arguments::Bcast { root: 0, count: n };
        let allgather = Arguments::Allgather { blocks };
        let alltoall = Arguments::Alltoall {
            send: blocks,
            receive: blocks,
        };
        let reduce = Arguments::Reduce { root: 0, count: n };
        let allreduce = Arguments::Allreduce {
            count: n,
            commutative: true,
        };
        let reduce_scatter = Arguments::ReduceScatter { blocks };
        let scan = Arguments::Scan {
            count: n,
            prefix: Prefix::Inclusive,
        };
        // Segments have 1 + p mod 5 elements.
        let segments = n.div_ceil(1 + p % 5);
        let table = [
            (Arguments::Barrier, Dissemination, p * log, 0),
            (Arguments::Barrier, Binomial, 2 * (p - 1), 0),
            (bcast, Binomial, p - 1, (p - 1) * n),
            (bcast, Chain, (p - 1) * segments, (p - 1) * n),
            (gather, Linear, p - 1, (p - 1) * n),
            (gather, Binomial, p - 1, p * log * n / 2),
            (scatter, Linear, p - 1, (p - 1) * n),
            (scatter, Binomial, p - 1, p * log * n / 2),
            (allgather, Ring, p * (p - 1), p * (p - 1) * n),
            (allgather, RecursiveDoubling, p * log, p * (p - 1) * n),
            (allgather, Bruck, p * log, p * (p - 1) * n),
            (alltoall, Pairwise, p * (p - 1), p * (p - 1) * n),
            (alltoall, Linear, p * (p - 1), p * (p - 1) * n),
            (alltoall, Bruck, p * log, p * log * p / 2 * n),
            (reduce, Binomial, p - 1, (p - 1) * n),
            (
                reduce,
                Rabenseifner,
                p * log + p - 1,
                (p - 1) * n + p * log * n / p / 2,
            ),
            (allreduce, RecursiveDoubling, p * log, p * log * n),
            (allreduce, Rabenseifner, 2 * p * log, 2 * (p - 1) * n),
            (allreduce, Ring, 2 * p * (p - 1), 2 * (p - 1) * n),
            (reduce_scatter, RecursiveHalving, p * log, p * (p - 1) * n),
            (reduce_scatter, Pairwise, p * (p - 1), p * (p - 1) * n),
            (scan, RecursiveDoubling, p * log, p * log * n),
            (scan, Linear, p - 1, (p - 1) * n),
        ];
        for (arguments, algorithm, messages, elements) in table {
            let is = volume(size, algorithm, arguments);
            let expected = Volume {
                messages,
                elements,
                logged: elements,
            };
            assert_eq!(is, expected, "{algorithm:?} {arguments:?}, {size} places");
        }
    }
}

/// Every place but the root gets what it lacks once: n (p − 1) elements, of which the scatter
/// brings n/2 log2 p.
#[test]
fn scatter_and_allgather_bring_nothing_twice() {
    for size in [2, 4, 8, 16, 32] {
        let arguments = Arguments::Bcast {
            root: 0,
            count: COUNT,
        };
        for algorithm in [Algorithm::ScatterAllgather, Algorithm::ScatterDoubling] {
            let is = volume(size, algorithm, arguments);
            assert_eq!(is.elements, u64::from(size - 1) * COUNT, "{algorithm:?}");
        }
    }
}

#[test]
fn what_is_published_is_logged_once() {
    for size in [1, 2, 3, 8] {
        let (p, n) = (u64::from(size), COUNT);
        let is = volume(
            size,
            Algorithm::Flat,
            Arguments::Bcast { root: 0, count: n },
        );
        let elements = (p - 1) * n;
        let logged = if size > 1 { n } else { 0 };
        assert_eq!(
            is,
            Volume {
                messages: p - 1,
                elements,
                logged
            }
        );
        let blocks = Blocks::Even(n);
        let is = volume(size, Algorithm::Flat, Arguments::Allgather { blocks });
        assert_eq!((is.elements, is.logged), (p * (p - 1) * n, p * logged));
        let arguments = Arguments::Allreduce {
            count: n,
            commutative: false,
        };
        let is = volume(size, Algorithm::Flat, arguments);
        assert_eq!((is.elements, is.logged), (p * (p - 1) * n, p * logged));
    }
}

/// Nothing is copied within a place of a power of two, whatever the number of rounds.
#[test]
fn recursive_doubling_copies_nothing() {
    for size in [2, 4, 8, 16, 32] {
        let commutative = false;
        let arguments = Arguments::Allreduce {
            count: COUNT,
            commutative,
        };
        let mut schedule = Schedule::default();
        let call = call(size, 1, false, arguments);
        Table::default().schedule(Algorithm::RecursiveDoubling, &call, &mut schedule);
        let is_copy = |step: &Step| matches!(step.action, Action::Copy { .. });
        assert!(!schedule.steps().iter().any(is_copy), "{size} places");
    }
}
