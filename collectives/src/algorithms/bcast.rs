//! Broadcast. All places use [`Buffer::Output`]; the root only reads it.

use crate::blocks::Blocks;
use crate::group::Group;
use crate::schedule::{Buffer, Part, Schedule};
use crate::tree;

/// Binomial tree, the largest subtree first: latency of log2 of the size.
pub fn binomial(schedule: &mut Schedule, group: Group, root: u32, data: Part) {
    let relative = group.seen_from(root).me;
    if let Some(parent) = tree::parent(relative) {
        schedule.receive(group.place(parent, root), data);
        schedule.fence();
    }
    for child in tree::children(relative, group.size) {
        schedule.send(group.place(child, root), data);
    }
}

/// The root writes once, all others read.
pub fn flat(schedule: &mut Schedule, group: Group, root: u32, data: Part) {
    match group.me == root {
        true if group.size > 1 => schedule.publish(data),
        true => {}
        false => schedule.receive(root, data),
    }
}

/// Chain of all places, in segments: each place sends each byte once, and the segments travel
/// behind each other. A place receives one segment while it sends the one before.
pub fn chain(schedule: &mut Schedule, group: Group, root: u32, data: Part, segment: u64) {
    let relative = group.seen_from(root).me;
    let segments = data.count.div_ceil(segment);
    let part = |index: u64| {
        let start = index * segment;
        data.part(start, segment.min(data.count - start))
    };
    let receive = |schedule: &mut Schedule, index| {
        if relative > 0 && index < segments {
            schedule.receive(group.below(1), part(index));
        }
        schedule.next()
    };
    let mut here = receive(schedule, 0);
    for index in 0..segments {
        let next = receive(schedule, index + 1);
        schedule.after(here);
        if relative + 1 < group.size {
            schedule.send(group.above(1), part(index));
        }
        here = next;
    }
}

/// Scatter in a binomial tree, then allgather in a ring (van de Geijn; Thakur, Rabenseifner and
/// Gropp 2005, section 4.2): each byte leaves each place about twice, for long messages. A place
/// has the blocks of its whole subtree after the scatter, and those are not sent again (Zhou et
/// al. 2015).
pub fn scatter_allgather(schedule: &mut Schedule, group: Group, root: u32, data: Part) {
    let (size, me) = (group.size, group.seen_from(root));
    let blocks = Blocks::Split {
        total: data.count,
        parts: size,
    };
    let subtree = |place| blocks.parts(Buffer::Output, place, tree::span(place, size));
    if let Some(parent) = tree::parent(me.me) {
        schedule.receive(group.place(parent, root), subtree(me.me));
        schedule.fence();
    }
    for child in tree::children(me.me, size) {
        schedule.send(group.place(child, root), subtree(child));
    }
    let lacks = |place: u32, block| block < place || block >= place + tree::span(place, size);
    let above = me.above(1);
    for round in 0..size - 1 {
        schedule.fence();
        let (sent, received) = (me.below(round), me.below(round + 1));
        if lacks(above, sent) {
            schedule.send(group.above(1), blocks.part(Buffer::Output, sent));
        }
        if lacks(me.me, received) {
            schedule.receive(group.below(1), blocks.part(Buffer::Output, received));
        }
    }
}
