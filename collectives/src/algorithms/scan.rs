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

/// Each place waits for the one below, in segments: a place combines one while the next one comes.
/// Least messages and bytes, latency of the size. ((x_0 ∘ x_1) ∘ …) ∘ x_me.
pub fn chain(schedule: &mut Schedule, group: Group, input: Part, prefix: Prefix, segment: u64) {
    let output = Buffer::Output.first(input.count);
    let segments = input.count.div_ceil(segment);
    let is_last = group.me + 1 == group.size;
    let Some(below) = group.me.checked_sub(1) else {
        if prefix == Prefix::Inclusive {
            schedule.copy(input, output);
        }
        for index in (0..segments).filter(|_| !is_last) {
            schedule.send(1, input.segment(index, segment));
        }
        return;
    };
    // What comes is the result of an exclusive scan. In place it replaces the input, after both are
    // combined for the place above.
    let [received, combined] = match prefix {
        Prefix::Inclusive => [output; 2],
        Prefix::Exclusive => [(); 2].map(|()| schedule.take_scratch(input.count)),
    };
    let receive = |schedule: &mut Schedule, index| {
        if index < segments {
            let [with, into] = [input, received].map(|part| part.segment(index, segment));
            match prefix {
                Prefix::Inclusive => schedule.receive_reduce(below, Side::Left, with, into),
                Prefix::Exclusive => schedule.receive(below, into),
            }
        }
        schedule.next()
    };
    let mut here = receive(schedule, 0);
    for index in 0..segments {
        let next = receive(schedule, index + 1);
        schedule.after(here);
        let [own, came, passed] =
            [input, received, combined].map(|part| part.segment(index, segment));
        if prefix == Prefix::Exclusive {
            if !is_last {
                schedule.reduce(came, own, passed);
            }
            schedule.copy(came, output.segment(index, segment));
        }
        if !is_last {
            schedule.send(group.me + 1, passed);
        }
        here = next;
    }
}
