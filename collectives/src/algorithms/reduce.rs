//! Reduce: the root gets the combination of all inputs, in the order of places.
//!
//! Both algorithms combine pairs and then a balanced tree (`cube.rs`), whatever the root is.

use crate::blocks::Blocks;
use crate::cube::Cube;
use crate::group::Group;
use crate::schedule::{Buffer, Part, Schedule, Side};

/// Binomial tree (Thakur, Rabenseifner and Gropp 2005) whose branches are chosen by
/// the bits of the root, so that operands stay in the order of places for any root.
pub fn binomial(schedule: &mut Schedule, group: Group, root: u32, input: Part) {
    let cube = Cube::new(group.size, root);
    let (node, root_node) = (cube.node(group.me), cube.node(root));
    if !cube.acts(group.me) {
        cube.fold(schedule, group, input, input);
        return;
    }
    // The lowest bit in which I differ from the root tells when I am done.
    let rounds = (node ^ root_node).trailing_zeros().min(cube.dimensions);
    let store = match group.me == root {
        true => Buffer::Output.first(input.count),
        false if rounds > 0 || cube.twin(group.me).is_some() => schedule.take_scratch(input.count),
        false => input,
    };
    let mut operand = cube.fold(schedule, group, input, store);
    for round in 0..rounds {
        let other = node ^ 1 << round;
        let message = Side::of(other, node);
        schedule.receive_reduce(cube.place(other), message, operand, store);
        schedule.fence();
        operand = store;
    }
    match group.me == root {
        true => schedule.copy(operand, store),
        false => schedule.send(cube.place(node ^ 1 << rounds), operand),
    }
}

/// Rabenseifner 2004: [`scatter`], then a binomial gather. For long vectors.
pub fn rabenseifner(schedule: &mut Schedule, group: Group, root: u32, input: Part) {
    let cube = Cube::new(group.size, root);
    let (node, root_node) = (cube.node(group.me), cube.node(root));
    if !cube.acts(group.me) {
        cube.fold(schedule, group, input, input);
        return;
    }
    let store = match group.me == root {
        true => Buffer::Output.first(input.count),
        false => schedule.take_scratch(input.count),
    };
    let operand = cube.fold(schedule, group, input, store);
    let result = scatter(schedule, cube, node, operand, store);
    for round in (0..cube.dimensions).rev() {
        let other = node ^ 1 << round;
        let [mine, theirs] = [node, other].map(|node| share(cube, result, node, round + 1));
        if (node ^ root_node) >> round & 1 == 1 {
            schedule.send(cube.place(other), mine);
            return;
        }
        schedule.receive(cube.place(other), theirs);
        schedule.fence();
    }
    schedule.copy(result, store);
}

/// Recursive vector halving with distance doubling (Rabenseifner 2004): in round `k` nodes at
/// distance 2^k exchange halves of what they still have. At the end each node has its
/// `Cube::share` of the combination of all, in what is returned.
pub fn scatter(schedule: &mut Schedule, cube: Cube, node: u32, input: Part, store: Part) -> Part {
    let mut operand = input;
    for round in 0..cube.dimensions {
        let other = node ^ 1 << round;
        let partner = cube.place(other);
        let part = |whole, node| share(cube, whole, node, round + 1);
        schedule.send(partner, part(operand, other));
        let message = Side::of(other, node);
        schedule.receive_reduce(partner, message, part(operand, node), part(store, node));
        schedule.fence();
        operand = store;
    }
    operand
}

/// What `node` has of `vector` after `rounds` halvings.
pub fn share(cube: Cube, vector: Part, node: u32, rounds: u32) -> Part {
    let (first, number) = cube.share(node, rounds);
    let blocks = Blocks::Split {
        total: vector.count,
        parts: cube.nodes(),
    };
    vector.part(blocks.start(first), blocks.sum(first, number))
}
