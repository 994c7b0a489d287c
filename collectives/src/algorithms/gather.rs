//! Gather: the block of each place goes to the root.

use crate::blocks::Blocks;
use crate::group::Group;
use crate::schedule::{Buffer, Part, Schedule};
use crate::tree;

/// Each place sends to the root. `own` is this place's block, unless it is where it belongs; the
/// root alone knows `blocks`.
pub fn linear(
    schedule: &mut Schedule,
    group: Group,
    root: u32,
    own: Option<Part>,
    blocks: &Blocks,
) {
    if group.me != root {
        own.into_iter().for_each(|own| schedule.send(root, own));
        return;
    }
    for source in (0..group.size).filter(|place| *place != root) {
        schedule.receive(source, blocks.part(Buffer::Output, source));
    }
    if let Some(own) = own {
        schedule.copy(own, blocks.part(Buffer::Output, root));
    }
}

/// Binomial tree (Thakur, Rabenseifner and Gropp 2005): each place collects the blocks
/// of its subtree, the smallest branches first, as they are ready first. All blocks have `count`
/// elements.
pub fn binomial(schedule: &mut Schedule, group: Group, root: u32, own: Option<Part>, count: u64) {
    let blocks = Blocks::Even(count);
    let relative = group.seen_from(root).me;
    let Some(parent) = tree::parent(relative) else {
        for child in tree::children(0, group.size).rev() {
            for (first, number) in tree::messages(group, root, child) {
                let into = blocks.parts(Buffer::Output, first, number);
                schedule.receive(group.place(child, root), into);
            }
        }
        if let Some(own) = own {
            schedule.copy(own, blocks.part(Buffer::Output, root));
        }
        return;
    };
    let own = own.expect("only the root may be in place");
    let span = tree::span(relative, group.size);
    let mut collected = own;
    if span > 1 {
        collected = schedule.take_scratch(blocks.sum(0, span));
        for child in tree::children(relative, group.size).rev() {
            let number = tree::span(child, group.size);
            let into = blocks.parts(Buffer::Scratch, child - relative, number);
            schedule.receive(group.place(child, root), into);
        }
        schedule.copy(own, collected.part(0, count));
        schedule.fence();
    }
    let mut start = 0;
    for (_, number) in tree::messages(group, root, relative) {
        let part = collected.part(start, blocks.sum(0, number));
        schedule.send(group.place(parent, root), part);
        start += part.count;
    }
}
