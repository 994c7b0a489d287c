//! Allgather: every place gets the block of each place.

use crate::blocks::Blocks;
use crate::group::Group;
use crate::schedule::{Buffer, Part, Schedule};

/// Ring (Thakur, Rabenseifner and Gropp 2005): in each round a place passes on the
/// block that it received last. Each byte leaves a place once; for long blocks.
pub fn ring(schedule: &mut Schedule, group: Group, own: Option<Part>, blocks: &Blocks) {
    put_own(schedule, group, own, blocks);
    for round in 0..group.size - 1 {
        let (sent, received) = (group.below(round), group.below(round + 1));
        schedule.send(group.above(1), blocks.part(Buffer::Output, sent));
        schedule.receive(group.below(1), blocks.part(Buffer::Output, received));
        schedule.fence();
    }
}

/// Recursive doubling (Thakur, Rabenseifner and Gropp 2005): in round `k` places at
/// distance 2^k exchange all they have. For groups of 2^k places.
pub fn recursive_doubling(
    schedule: &mut Schedule,
    group: Group,
    own: Option<Part>,
    blocks: &Blocks,
) {
    let all = blocks.sum(0, group.size);
    // Messages of many blocks: dense, however the blocks lie in this place's output.
    let staged = !blocks.is_dense(group.size);
    let dense = match staged {
        true => schedule.take_scratch(all),
        false => Buffer::Output.first(all),
    };
    let range = |first, number| dense.part(blocks.sum(0, first), blocks.sum(first, number));
    let mine = blocks.part(Buffer::Output, group.me);
    schedule.copy(own.unwrap_or(mine), range(group.me, 1));
    for round in 0..group.doublings() {
        let number = 1 << round;
        let partner = group.me ^ number;
        let [have, get] = [group.me, partner].map(|place| range(place & !(number - 1), number));
        schedule.send(partner, have);
        schedule.receive(partner, get);
        schedule.fence();
    }
    if staged {
        for place in 0..group.size {
            schedule.copy(range(place, 1), blocks.part(Buffer::Output, place));
        }
    }
}

/// Bruck et al. 1997: in round `k` each place sends all it has to the place 2^k below. Log2 of
/// the size rounds for groups of any size; for short blocks.
pub fn bruck(schedule: &mut Schedule, group: Group, own: Option<Part>, blocks: &Blocks) {
    let collected = schedule.take_scratch(blocks.sum(0, group.size));
    // Elements of the first `number` blocks from mine on, around the ring.
    let elements = |number: u32| {
        let before_end = number.min(group.size - group.me);
        blocks.sum(group.me, before_end) + blocks.sum(0, number - before_end)
    };
    let mine = blocks.part(Buffer::Output, group.me);
    schedule.copy(own.unwrap_or(mine), collected.part(0, elements(1)));
    for round in 0..group.doublings() {
        let have = 1 << round;
        let get = have.min(group.size - have);
        let (below, above) = (group.below(have), group.above(have));
        schedule.send(below, collected.part(0, elements(get)));
        let received = elements(have + get) - elements(have);
        schedule.receive(above, collected.part(elements(have), received));
        schedule.fence();
    }
    let mut start = 0;
    for (first, number) in [(group.me, group.size - group.me), (0, group.me)] {
        start += copy_out(schedule, collected, start, blocks, first, number);
    }
}

/// Each place writes its block once, and all others read it.
pub fn flat(schedule: &mut Schedule, group: Group, own: Option<Part>, blocks: &Blocks) {
    let mine = blocks.part(Buffer::Output, group.me);
    if group.size > 1 {
        schedule.publish(group.size, own.unwrap_or(mine));
    }
    for distance in 1..group.size {
        let source = group.below(distance);
        schedule.receive(source, blocks.part(Buffer::Output, source));
    }
    put_own(schedule, group, own, blocks);
}

fn put_own(schedule: &mut Schedule, group: Group, own: Option<Part>, blocks: &Blocks) {
    if let Some(own) = own {
        schedule.copy(own, blocks.part(Buffer::Output, group.me));
    }
}

/// Copies `number` blocks from `first` on from element `start` of `from` into the output: in one
/// step if they are dense there. Returns how many elements they have.
fn copy_out(
    schedule: &mut Schedule,
    from: Part,
    start: u64,
    blocks: &Blocks,
    first: u32,
    number: u32,
) -> u64 {
    let all = blocks.sum(first, number);
    if !matches!(blocks, Blocks::Listed { .. }) {
        let into = blocks.parts(Buffer::Output, first, number);
        schedule.copy(from.part(start, all), into);
        return all;
    }
    let mut start = start;
    for block in first..first + number {
        let into = blocks.part(Buffer::Output, block);
        schedule.copy(from.part(start, into.count), into);
        start += into.count;
    }
    all
}
