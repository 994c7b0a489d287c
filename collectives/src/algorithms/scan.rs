//! Scan and exscan: each place gets the combination of the inputs of all places up to it, itself
//! included or excluded. Operands are always in the order of places.

use crate::group::Group;
use crate::schedule::{Buffer, Part, Schedule, Side};

/// Whether a place's own input is part of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// Scan.
    Inclusive,
    /// Exscan. The output of place 0 is not written.
    Exclusive,
}

/// Recursive doubling (Grama, Gupta, Karypis and Kumar 2003): in round `k` places at
/// distance 2^k exchange what their 2^k neighbours have combined; the upper one needs it for its
/// result, both for the next round.
pub fn recursive_doubling(schedule: &mut Schedule, group: Group, input: Part, prefix: Prefix) {
    let output = Buffer::Output.first(input.count);
    let [received, store] = match group.size {
        1 => [input; 2],
        _ => [(); 2].map(|()| schedule.take_scratch(input.count)),
    };
    let mut neighbours = input;
    let mut result = (prefix == Prefix::Inclusive).then_some(input);
    for round in 0..group.doublings() {
        let partner = group.me ^ 1 << round;
        if partner >= group.size {
            continue;
        }
        schedule.send(partner, neighbours);
        schedule.receive(partner, received);
        schedule.fence();
        // First: in place this still reads the output, which the result replaces.
        if round + 1 < group.doublings() {
            let (left, right) = match Side::of(partner, group.me) {
                Side::Left => (received, neighbours),
                Side::Right => (neighbours, received),
            };
            schedule.reduce(left, right, store);
            neighbours = store;
        }
        if partner < group.me {
            match result {
                Some(result) => schedule.reduce(received, result, output),
                None => schedule.copy(received, output),
            }
            result = Some(output);
        }
    }
    if let Some(result) = result {
        schedule.copy(result, output);
    }
}

/// Each place waits for the one below: least messages, latency of the size.
/// ((x_0 ∘ x_1) ∘ …) ∘ x_me.
pub fn linear(schedule: &mut Schedule, group: Group, input: Part, prefix: Prefix) {
    let output = Buffer::Output.first(input.count);
    let is_last = group.me + 1 == group.size;
    let mut passed = input;
    if let Some(below) = group.me.checked_sub(1) {
        match prefix {
            Prefix::Inclusive => {
                schedule.receive_reduce(below, Side::Left, input, output);
                passed = output;
                schedule.fence();
            }
            Prefix::Exclusive => {
                let received = schedule.take_scratch(input.count);
                schedule.receive(below, received);
                schedule.fence();
                if !is_last {
                    passed = schedule.take_scratch(input.count);
                    schedule.reduce(received, input, passed);
                }
                schedule.copy(received, output);
            }
        }
    } else if prefix == Prefix::Inclusive {
        schedule.copy(input, output);
    }
    if !is_last {
        schedule.send(group.me + 1, passed);
    }
}
