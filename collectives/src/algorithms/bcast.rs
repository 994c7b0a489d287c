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
        true if group.size > 1 => schedule.publish(group.size, data),
        true => {}
        false => schedule.receive(root, data),
    }
}

/// Chain of all places, in segments: each place sends each byte once, and the segments travel
/// behind each other. A place receives one segment while it sends the one before.
pub fn chain(schedule: &mut Schedule, group: Group, root: u32, data: Part, segment: u64) {
    let relative = group.seen_from(root).me;
    let segments = data.count.div_ceil(segment);
    let receive = |schedule: &mut Schedule, index| {
        if relative > 0 && index < segments {
            schedule.receive(group.below(1), data.segment(index, segment));
        }
        schedule.next()
    };
    let mut here = receive(schedule, 0);
    for index in 0..segments {
        let next = receive(schedule, index + 1);
        schedule.after(here);
        if relative + 1 < group.size {
            schedule.send(group.above(1), data.segment(index, segment));
        }
        here = next;
    }
}

/// Scatter in a binomial tree, then allgather in a ring (van de Geijn; Thakur, Rabenseifner and
/// Gropp 2005): no place sends more than about two vectors, for long messages. A place has the
/// blocks of its whole subtree after the scatter, and those are not sent again (Zhou et al. 2015).
pub fn scatter_allgather(schedule: &mut Schedule, group: Group, root: u32, data: Part) {
    let scattered = scatter(schedule, group, root, data);
    let me = group.seen_from(root);
    for round in 0..group.size - 1 {
        let [sent, received] = [round, round + 1].map(|distance| (me.below(distance), 1));
        scattered.pass(schedule, me.above(1), sent);
        scattered.take(schedule, me.below(1), received);
        schedule.fence();
    }
}

/// The same with allgather by recursive doubling: fewer messages, for groups of 2^k places.
pub fn scatter_doubling(schedule: &mut Schedule, group: Group, root: u32, data: Part) {
    let scattered = scatter(schedule, group, root, data);
    let me = group.seen_from(root).me;
    for round in 0..group.doublings() {
        let number = 1 << round;
        let partner = me ^ number;
        let [have, get] = [me, partner].map(|place| (place & !(number - 1), number));
        scattered.pass(schedule, partner, have);
        scattered.take(schedule, partner, get);
        schedule.fence();
    }
}

/// What places have after a scatter: the blocks of their subtrees. Places count from the root.
struct Scattered {
    group: Group,
    root: u32,
    blocks: Blocks<'static>,
}

fn scatter(schedule: &mut Schedule, group: Group, root: u32, data: Part) -> Scattered {
    let (total, parts) = (data.count, group.size);
    let blocks = Blocks::Split { total, parts };
    let me = group.seen_from(root).me;
    let subtree = |place| blocks.parts(Buffer::Output, place, tree::span(place, group.size));
    if let Some(parent) = tree::parent(me) {
        schedule.receive(group.place(parent, root), subtree(me));
        schedule.fence();
    }
    for child in tree::children(me, group.size) {
        schedule.send(group.place(child, root), subtree(child));
    }
    schedule.fence();
    Scattered {
        group,
        root,
        blocks,
    }
}

impl Scattered {
    /// Sends blocks `(first, number)` to `place` if they are not of its subtree.
    fn pass(&self, schedule: &mut Schedule, place: u32, (first, number): (u32, u32)) {
        if !self.has(place, first) {
            let from = self.blocks.parts(Buffer::Output, first, number);
            schedule.send(self.group.place(place, self.root), from);
        }
    }

    /// Receives blocks from `place` if they are not of this place's subtree.
    fn take(&self, schedule: &mut Schedule, place: u32, (first, number): (u32, u32)) {
        if !self.has(self.group.seen_from(self.root).me, first) {
            let into = self.blocks.parts(Buffer::Output, first, number);
            schedule.receive(self.group.place(place, self.root), into);
        }
    }

    fn has(&self, place: u32, block: u32) -> bool {
        (place..place + tree::span(place, self.group.size)).contains(&block)
    }
}
