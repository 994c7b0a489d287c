//! Alltoall: each place has a block for each place.
//!
//! In each round of [`exchange`] places exchange their blocks in pairs: see `partner`.

use crate::blocks::Blocks;
use crate::group::Group;
use crate::schedule::{Buffer, Part, Schedule};

/// Pairwise exchange (Thakur, Rabenseifner and Gropp 2005) with up to `window` rounds
/// under way: 1 for long blocks, more for short ones ("posted linear").
pub fn exchange(
    schedule: &mut Schedule,
    group: Group,
    window: u32,
    send: &Blocks,
    receive: &Blocks,
) {
    let depth = window.max(1).saturating_mul(2);
    for round in 0..group.size {
        let partner = partner(group, round);
        let from = send.part(Buffer::Input, partner);
        let into = receive.part(Buffer::Output, partner);
        if partner == group.me {
            schedule.copy(from, into);
            continue;
        }
        // A round is two steps: all are complete but those of the last `window - 1` rounds.
        schedule.after((schedule.next() + 2).saturating_sub(depth));
        schedule.send(partner, from);
        schedule.receive(partner, into);
    }
}

/// The partner in `round`, perhaps the place itself: both places of a pair find each other in the
/// same round, for groups of any size.
fn partner(group: Group, round: u32) -> u32 {
    match group.size.is_power_of_two() {
        true => group.me ^ round,
        false => Group { me: round, ..group }.below(group.me),
    }
}

/// The same in place: a block is received apart and replaces the one that was sent.
pub fn exchange_in_place(schedule: &mut Schedule, group: Group, blocks: &Blocks) {
    let longest = (0..group.size).map(|place| blocks.count(place)).max();
    let scratch = schedule.take_scratch(longest.unwrap_or(0));
    for round in 0..group.size {
        let partner = partner(group, round);
        if partner == group.me {
            continue;
        }
        let block = blocks.part(Buffer::Output, partner);
        let received = scratch.part(0, block.count);
        schedule.send(partner, block);
        schedule.receive(partner, received);
        schedule.fence();
        schedule.copy(received, block);
    }
}

/// Bruck et al. 1997: block `j` travels along the bits of `j`, the distance to its receiver. In
/// round `k` each place sends the blocks whose bit `k` is set, about half of all, to the place 2^k
/// above. Log2 of the size rounds; for short blocks. All blocks have `count` elements.
pub fn bruck(schedule: &mut Schedule, group: Group, input: Buffer, count: u64) {
    let blocks = Blocks::Even(count);
    let half = blocks.sum(0, group.size.div_ceil(2));
    let all = schedule.take_scratch(blocks.sum(0, group.size));
    let [sent, received] = [half; 2].map(|half| schedule.take_scratch(half));
    let rotated = group.size - group.me;
    schedule.copy(
        blocks.parts(input, group.me, rotated),
        all.part(0, blocks.sum(0, rotated)),
    );
    schedule.copy(
        blocks.parts(input, 0, group.me),
        all.part(blocks.sum(0, rotated), blocks.sum(0, group.me)),
    );
    for round in 0..group.doublings() {
        let distance = 1 << round;
        let total = for_each_run(group.size, distance, |run, packed| {
            let part =
                |of: Part, (first, number)| of.part(blocks.start(first), blocks.sum(0, number));
            schedule.copy(part(all, run), part(sent, packed));
        });
        let total = blocks.sum(0, total);
        schedule.send(group.above(distance), sent.part(0, total));
        schedule.receive(group.below(distance), received.part(0, total));
        schedule.fence();
        for_each_run(group.size, distance, |run, packed| {
            let part =
                |of: Part, (first, number)| of.part(blocks.start(first), blocks.sum(0, number));
            schedule.copy(part(received, packed), part(all, run));
        });
    }
    for block in 0..group.size {
        let from = all.part(blocks.start(block), count);
        schedule.copy(from, blocks.part(Buffer::Output, group.below(block)));
    }
}

/// Calls `f` with each run `(first, number)` of blocks below `size` whose bit `distance` is set,
/// and where it is among all of them. Returns how many there are.
fn for_each_run(size: u32, distance: u32, mut f: impl FnMut((u32, u32), (u32, u32))) -> u32 {
    let mut packed = 0;
    for first in (distance..size).step_by(2 * distance as usize) {
        let number = distance.min(size - first);
        f((first, number), (packed, number));
        packed += number;
    }
    packed
}
