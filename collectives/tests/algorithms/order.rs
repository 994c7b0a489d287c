//! In which order operands are combined: the expressions themselves.

use crate::group_run::{Buffers, Element, input, run, unwritten};
use crate::{SIZES, call};
use refrain_collectives::check::Sends;
use refrain_collectives::{Algorithm, Arguments, Blocks};

const COUNT: u64 = 3;

fn expressions(
    size: u32,
    algorithm: Algorithm,
    arguments: Arguments,
    sends: Sends,
) -> Vec<Vec<String>> {
    let buffers = Buffers {
        inputs: (0..size).map(|place| input(place, COUNT)).collect(),
        outputs: vec![unwritten(COUNT); size as usize],
    };
    let call = |me| call(size, me, false, arguments);
    run(algorithm, &call, &buffers, sends, 0x5eed).outputs
}

/// Pairs of the places that are too many for a power of two, then a balanced tree.
fn documented(size: u32, index: u64) -> String {
    let leaf = |place| String::of(place, index);
    let pairs = size - (1 << size.ilog2());
    let folded = (0..pairs).map(|pair| leaf(2 * pair).combine(&leaf(2 * pair + 1)));
    let mut nodes: Vec<String> = folded.chain((2 * pairs..size).map(leaf)).collect();
    while nodes.len() > 1 {
        nodes = nodes
            .chunks(2)
            .map(|pair| pair[0].combine(&pair[1]))
            .collect();
    }
    nodes.remove(0)
}

#[test]
fn one_expression_for_every_tree_root_and_place() {
    use Algorithm::{Binomial, Flat, HalvingFlat, Rabenseifner, RecursiveDoubling};
    for size in SIZES {
        let expected: Vec<String> = (0..COUNT).map(|index| documented(size, index)).collect();
        let (count, commutative) = (COUNT, false);
        for algorithm in [RecursiveDoubling, Rabenseifner, HalvingFlat, Flat] {
            let arguments = Arguments::Allreduce { count, commutative };
            let all = expressions(size, algorithm, arguments, Sends::Buffered);
            assert!(
                all.iter().all(|it| *it == expected),
                "{algorithm:?}, {size} places"
            );
        }
        for (root, algorithm) in (0..size).flat_map(|root| [(root, Binomial), (root, Rabenseifner)])
        {
            let all = expressions(
                size,
                algorithm,
                Arguments::Reduce { root, count },
                Sends::Blocking,
            );
            assert_eq!(
                all[root as usize], expected,
                "{algorithm:?}, root {root} of {size}"
            );
        }
        let blocks = Blocks::Split {
            total: COUNT,
            parts: size,
        };
        let arguments = Arguments::ReduceScatter { blocks };
        let all = expressions(
            size,
            Algorithm::RecursiveHalving,
            arguments,
            Sends::Buffered,
        );
        for place in 0..size {
            let (start, count) = (blocks.start(place) as usize, blocks.count(place) as usize);
            assert_eq!(all[place as usize][..count], expected[start..start + count]);
        }
    }
}

#[test]
fn a_ring_gives_one_expression_at_every_place() {
    for size in SIZES {
        let arguments = Arguments::Allreduce {
            count: COUNT,
            commutative: true,
        };
        let all = expressions(size, Algorithm::Ring, arguments, Sends::Buffered);
        assert!(all.iter().all(|it| *it == all[0]), "{size} places");
        let first = (1..size).fold(String::of(0, 0), |left, place| {
            left.combine(&String::of(place, 0))
        });
        assert_eq!(all[0][0], first);
    }
}
