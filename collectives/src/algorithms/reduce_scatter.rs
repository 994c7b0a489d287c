//! Reduce-scatter: each place gets its block of the combination of all inputs, at the beginning
//! of its output. The blocks of the input are dense, in the order of places.

use crate::blocks::Blocks;
use crate::cube::Cube;
use crate::group::Group;
use crate::schedule::{Buffer, Part, Schedule, Side};

/// Recursive vector halving with distance doubling over blocks in bit-reversed order (Träff 2005):
/// operands stay in the order of places, and the expression is that of [`super::allreduce`].
pub fn recursive_halving(schedule: &mut Schedule, group: Group, input: Part, blocks: &Blocks) {
    let cube = Cube::new(group.size, 0);
    let node = cube.node(group.me);
    let output = Buffer::Output.first(blocks.count(group.me));
    if !cube.acts(group.me) {
        cube.fold(schedule, group, input, input);
        cube.unfold(schedule, group, output);
        return;
    }
    let folded = match cube.twin(group.me) {
        Some(_) => schedule.take_scratch(input.count),
        None => input,
    };
    let operand = cube.fold(schedule, group, input, folded);
    let reversed = Reversed::new(cube, blocks);
    let vector = schedule.take_scratch(input.count);
    for slot in 0..cube.nodes() {
        let (first, number) = cube.places(cube.reversed(slot));
        let from = Part {
            start: operand.start + blocks.start(first),
            count: blocks.sum(first, number),
            ..operand
        };
        schedule.copy(from, reversed.part(vector, (slot, 1)));
    }
    for round in 0..cube.dimensions {
        let other = node ^ 1 << round;
        let partner = cube.place(other);
        let [keep, give] =
            [node, other].map(|node| reversed.part(vector, cube.share(node, round + 1)));
        schedule.send(partner, give);
        schedule.receive_reduce(partner, Side::of(other, node), keep, keep);
        schedule.fence();
    }
    let result = reversed.part(vector, cube.share(node, cube.dimensions));
    let (first, number) = cube.places(node);
    for place in first..first + number {
        let block = result.part(blocks.sum(first, place - first), blocks.count(place));
        match place == group.me {
            true => schedule.copy(block, output),
            false => schedule.send(place, block),
        }
    }
}

/// The blocks of nodes in the order of the nodes' reversed bits: then what a node has after each
/// halving is a range, and its own block at the end.
struct Reversed {
    starts: Vec<u64>,
}

impl Reversed {
    fn new(cube: Cube, blocks: &Blocks) -> Self {
        let mut starts = vec![0];
        for slot in 0..cube.nodes() {
            let (first, number) = cube.places(cube.reversed(slot));
            starts.push(starts[slot as usize] + blocks.sum(first, number));
        }
        Self { starts }
    }

    fn part(&self, vector: Part, (first, number): (u32, u32)) -> Part {
        let [start, end] = [first, first + number].map(|slot| self.starts[slot as usize]);
        vector.part(start, end - start)
    }
}

/// Pairwise exchange (Thakur, Rabenseifner and Gropp 2005): in each round a place
/// sends one block to its owner and receives an operand of its own. For long blocks.
///
/// Operands come from the places above, then around the ring from place 0 on. So two results
/// grow, each to the right, and are combined at the end: (x_0 ∘ … ∘ x_me−1) ∘ (x_me ∘ … ).
pub fn pairwise(schedule: &mut Schedule, group: Group, input: Part, blocks: &Blocks) {
    let count = blocks.count(group.me);
    let own = |place| Part {
        start: input.start + blocks.start(place),
        count: blocks.count(place),
        ..input
    };
    let output = Buffer::Output.first(count);
    // In place the output still has blocks that are to be sent.
    let store = match input.buffer {
        Buffer::Output => schedule.take_scratch(count),
        _ => output,
    };
    let (mut upper, mut lower) = (own(group.me), None);
    for distance in 1..group.size {
        let (source, to) = (group.above(distance), group.below(distance));
        schedule.send(to, own(to));
        match lower {
            _ if source > group.me => {
                schedule.receive_reduce(source, Side::Right, upper, store);
                upper = store;
            }
            None => {
                let first = schedule.take_scratch(count);
                schedule.receive(source, first);
                lower = Some(first);
            }
            Some(lower) => schedule.receive_reduce(source, Side::Right, lower, lower),
        }
        schedule.fence();
    }
    match lower {
        Some(lower) => {
            let result = if store == output { output } else { lower };
            schedule.reduce(lower, upper, result);
            schedule.copy(result, output);
        }
        None => schedule.copy(upper, output),
    }
}
