//! Allreduce: every place gets the combination of all inputs.
//!
//! Each algorithm gives the same bits on all places. [`recursive_doubling`], [`rabenseifner`],
//! [`halving_flat`] and [`flat`] combine as [`super::reduce`] does, in the order of places, and so
//! all give the same bits; [`ring`] combines each block in another order, and needs an operator
//! that commutes.

use super::reduce;
use crate::blocks::Blocks;
use crate::cube::Cube;
use crate::group::Group;
use crate::schedule::{Buffer, Part, Schedule, Side};

/// Recursive doubling (Thakur, Rabenseifner and Gropp 2005): in round `k` nodes at
/// distance 2^k exchange what they have combined. Both compute the same expression.
///
/// What is sent must not change until it has been received, so results alternate between output
/// and scratch.
pub fn recursive_doubling(schedule: &mut Schedule, group: Group, input: Part) {
    let cube = Cube::new(group.size, 0);
    let (node, output) = (cube.node(group.me), Buffer::Output.first(input.count));
    if !cube.acts(group.me) {
        cube.fold(schedule, group, input, input);
        cube.unfold(schedule, group, output);
        return;
    }
    let mut scratch = None;
    // The place of a round's result. The last round writes into the output, so the number of
    // `following` rounds decides between output and scratch.
    let mut store = |schedule: &mut Schedule, following: u32, in_use: Buffer| match in_use {
        Buffer::Scratch => output,
        Buffer::Input if following.is_multiple_of(2) => output,
        _ => *scratch.get_or_insert_with(|| schedule.take_scratch(input.count)),
    };
    let mut operand = input;
    if cube.twin(group.me).is_some() {
        // No message carries the operand meanwhile: it may be overwritten.
        let result = store(schedule, cube.dimensions, Buffer::Input);
        operand = cube.fold(schedule, group, operand, result);
    }
    for round in 0..cube.dimensions {
        let other = node ^ 1 << round;
        let partner = cube.place(other);
        let result = store(schedule, cube.dimensions - round - 1, operand.buffer);
        schedule.send(partner, operand);
        schedule.receive_reduce(partner, Side::of(other, node), operand, result);
        schedule.fence();
        operand = result;
    }
    schedule.copy(operand, output);
    cube.unfold(schedule, group, output);
}

/// Rabenseifner 2004: [`reduce::scatter`], then allgather by recursive doubling. For long
/// vectors.
pub fn rabenseifner(schedule: &mut Schedule, group: Group, input: Part) {
    let cube = Cube::new(group.size, 0);
    let (node, output) = (cube.node(group.me), Buffer::Output.first(input.count));
    if cube.acts(group.me) {
        let operand = cube.fold(schedule, group, input, output);
        let result = reduce::scatter(schedule, cube, node, operand, output);
        schedule.copy(result, output);
        for round in (0..cube.dimensions).rev() {
            let other = node ^ 1 << round;
            let [mine, theirs] =
                [node, other].map(|node| reduce::share(cube, output, node, round + 1));
            schedule.send(cube.place(other), mine);
            schedule.receive(cube.place(other), theirs);
            schedule.fence();
        }
    } else {
        cube.fold(schedule, group, input, input);
    }
    cube.unfold(schedule, group, output);
}

/// [`reduce::scatter`] as in [`rabenseifner`], then each node publishes its share: for long vectors
/// of places that read one memory.
pub fn halving_flat(schedule: &mut Schedule, group: Group, input: Part) {
    let cube = Cube::new(group.size, 0);
    let (node, output) = (cube.node(group.me), Buffer::Output.first(input.count));
    let share = |node| reduce::share(cube, output, node, cube.dimensions);
    let operand = cube.fold(schedule, group, input, output);
    if cube.acts(group.me) {
        let result = reduce::scatter(schedule, cube, node, operand, output);
        schedule.copy(result, output);
        if group.size > 1 {
            schedule.publish(group.size, share(node));
        }
    }
    for other in (0..cube.nodes()).filter(|other| cube.place(*other) != group.me) {
        schedule.receive(cube.place(other), share(other));
    }
}

/// Ring (Patarasuk and Yuan 2009): each block travels around the ring and is combined with the
/// block of each place; then the results travel once around. Least bytes for any size; for very
/// long vectors and operators that commute. Block `b` is combined from place `b` on:
/// ((x_b ∘ x_b+1) ∘ …) ∘ x_b−1.
pub fn ring(schedule: &mut Schedule, group: Group, input: Part) {
    let blocks = Blocks::Split {
        total: input.count,
        parts: group.size,
    };
    let (below, above) = (group.below(1), group.above(1));
    let mut operand = input.buffer;
    for round in 0..group.size - 1 {
        let [sent, received] = [round, round + 1].map(|distance| group.below(distance));
        schedule.send(above, blocks.part(operand, sent));
        let into = blocks.part(Buffer::Output, received);
        let with = blocks.part(input.buffer, received);
        schedule.receive_reduce(below, Side::Left, with, into);
        schedule.fence();
        operand = Buffer::Output;
    }
    for round in 0..group.size - 1 {
        let sent = Group { me: above, ..group }.below(round);
        let received = group.below(round);
        schedule.send(above, blocks.part(Buffer::Output, sent));
        schedule.receive(below, blocks.part(Buffer::Output, received));
        schedule.fence();
    }
    if group.size == 1 {
        schedule.copy(input, Buffer::Output.first(input.count));
    }
}

/// Each place writes its input once, and all others read and combine it: one latency, for few
/// places that read one memory.
pub fn flat(schedule: &mut Schedule, group: Group, input: Part) {
    let output = Buffer::Output.first(input.count);
    if group.size > 1 {
        schedule.publish(group.size, input);
    }
    let operands: Vec<Part> = (0..group.size)
        .map(|place| {
            if place == group.me {
                return input;
            }
            let operand = schedule.take_scratch(input.count);
            schedule.receive(place, operand);
            operand
        })
        .collect();
    schedule.fence();
    let cube = Cube::new(group.size, 0);
    let mut nodes: Vec<Part> = (0..cube.nodes())
        .map(|node| match cube.places(node) {
            (place, 1) => operands[place as usize],
            (place, _) => combine(schedule, &operands[place as usize..][..2]),
        })
        .collect();
    while nodes.len() > 2 {
        nodes = nodes
            .chunks(2)
            .map(|pair| combine(schedule, pair))
            .collect();
    }
    match nodes[..] {
        [left, right] => schedule.reduce(left, right, output),
        _ => schedule.copy(input, output),
    }
}

/// Combines two operands into the one that is in scratch.
fn combine(schedule: &mut Schedule, pair: &[Part]) -> Part {
    let (left, right) = (pair[0], pair[1]);
    let into = match left.buffer {
        Buffer::Scratch => left,
        _ => right,
    };
    schedule.reduce(left, right, into);
    into
}
