//! Collectives that combine, with operators that commute and that do not.

use crate::group_run::{Buffers, Element, Matrix, compare_all, input, unwritten};
use crate::{SIZES, call, counts};
use refrain_collectives::{Arguments, Blocks, Prefix};

/// The inputs of `places` combined in their order.
fn combined<T: Element>(places: std::ops::Range<u32>, count: u64) -> Vec<T> {
    let inputs = places.map(|place| input::<T>(place, count));
    let both = |left: Vec<T>, right: Vec<T>| {
        let pairs = left.iter().zip(&right);
        pairs.map(|(left, right)| left.combine(right)).collect()
    };
    inputs.reduce(both).unwrap_or_default()
}

/// Inputs of `count` elements at all places, or outputs that have them.
fn buffers<T: Element>(size: u32, count: u64, in_place: bool) -> Buffers<T> {
    let inputs: Vec<Vec<T>> = (0..size).map(|place| input(place, count)).collect();
    match in_place {
        true => Buffers {
            inputs: vec![vec![]; size as usize],
            outputs: inputs,
        },
        false => Buffers {
            inputs,
            outputs: vec![unwritten(count); size as usize],
        },
    }
}

fn with_all(test: impl Fn(u32, u64, bool)) {
    for size in SIZES {
        for count in counts(size) {
            test(size, count, false);
            test(size, count, true);
        }
    }
}

fn reduce<T: Element>(size: u32, count: u64, in_place: bool) {
    (0..size).for_each(|root| reduce_to::<T>(size, root, count, in_place));
}

pub fn reduce_to<T: Element>(size: u32, root: u32, count: u64, in_place: bool) {
    let at_root = |me| in_place && me == root;
    let mut expected = vec![vec![]; size as usize];
    expected[root as usize] = combined::<T>(0..size, count);
    let mut all: Buffers<T> = buffers(size, count, false);
    all.outputs.iter_mut().zip(0..).for_each(|(output, me)| {
        if me != root {
            output.clear();
        }
    });
    if in_place {
        all.outputs[root as usize] = std::mem::take(&mut all.inputs[root as usize]);
    }
    let arguments = Arguments::Reduce { root, count };
    compare_all(
        &|me| call(size, me, at_root(me), arguments),
        &all,
        &expected,
    );
}

#[test]
fn reduce_in_order() {
    with_all(reduce::<Matrix>);
}

pub fn allreduce<T: Element>(size: u32, count: u64, in_place: bool, commutative: bool) {
    let expected = vec![combined::<T>(0..size, count); size as usize];
    let arguments = Arguments::Allreduce { count, commutative };
    let buffers = buffers(size, count, in_place);
    compare_all(
        &|me| call(size, me, in_place, arguments),
        &buffers,
        &expected,
    );
}

#[test]
fn allreduce_that_commutes() {
    with_all(|size, count, in_place| allreduce::<u64>(size, count, in_place, true));
}

#[test]
fn allreduce_in_order() {
    with_all(|size, count, in_place| allreduce::<Matrix>(size, count, in_place, false));
}

pub fn reduce_scatter(size: u32, blocks: Blocks, in_place: bool) {
    let total = blocks.sum(0, size);
    let all: Vec<Matrix> = combined(0..size, total);
    let block = |place: u32| {
        let start = blocks.start(place) as usize;
        all[start..start + blocks.count(place) as usize].to_vec()
    };
    let expected: Vec<_> = (0..size).map(block).collect();
    let mut buffers = buffers(size, total, in_place);
    if !in_place {
        buffers.outputs = (0..size)
            .map(|place| unwritten(blocks.count(place)))
            .collect();
    }
    let arguments = Arguments::ReduceScatter { blocks };
    compare_all(
        &|me| call(size, me, in_place, arguments),
        &buffers,
        &expected,
    );
}

#[test]
fn reduce_scatter_in_order() {
    for size in SIZES {
        for in_place in [false, true] {
            for count in [0, 1, 3] {
                reduce_scatter(size, Blocks::Even(count), in_place);
            }
            // The second ones: the last block and the beginning of the output overlap.
            for counts in [
                |place| u64::from((place * 5 + 3) % 4),
                |place| u64::from(place + 1),
            ] {
                let counts: Vec<u64> = (0..size).map(counts).collect();
                let starts = (0..counts.len()).map(|it| counts[..it].iter().sum());
                let starts: Vec<u64> = starts.collect();
                let blocks = Blocks::Listed {
                    counts: &counts,
                    starts: &starts,
                };
                reduce_scatter(size, blocks, in_place);
            }
        }
    }
}

#[test]
fn scans_in_order() {
    with_all(scans);
}

pub fn scans(size: u32, count: u64, in_place: bool) {
    let buffers = buffers::<Matrix>(size, count, in_place);
    for prefix in [Prefix::Inclusive, Prefix::Exclusive] {
        let expected = |me: u32| match prefix {
            Prefix::Inclusive => combined(0..me + 1, count),
            Prefix::Exclusive if me > 0 => combined(0..me, count),
            Prefix::Exclusive => buffers.outputs[0].clone(),
        };
        let expected: Vec<Vec<Matrix>> = (0..size).map(expected).collect();
        let arguments = Arguments::Scan { count, prefix };
        compare_all(
            &|me| call(size, me, in_place, arguments),
            &buffers,
            &expected,
        );
    }
}
