//! Scatter: each place gets its block of the root.

use crate::blocks::Blocks;
use crate::group::Group;
use crate::schedule::{Buffer, Part, Schedule};
use crate::tree;

/// The root sends to each place. `own` is where this place's block goes, unless it stays; the
/// root alone knows `blocks`.
pub fn linear(
    schedule: &mut Schedule,
    group: Group,
    root: u32,
    own: Option<Part>,
    blocks: &Blocks,
) {
    if group.me != root {
        own.into_iter().for_each(|own| schedule.receive(root, own));
        return;
    }
    for to in (0..group.size).filter(|place| *place != root) {
        schedule.send(to, blocks.part(Buffer::Input, to));
    }
    if let Some(own) = own {
        schedule.copy(blocks.part(Buffer::Input, root), own);
    }
}

/// Binomial tree: [`super::gather::binomial`] backwards. All blocks have `count` elements.
pub fn binomial(schedule: &mut Schedule, group: Group, root: u32, own: Option<Part>, count: u64) {
    let blocks = Blocks::Even(count);
    let relative = group.seen_from(root).me;
    let Some(parent) = tree::parent(relative) else {
        for child in tree::children(0, group.size) {
            for (first, number) in tree::messages(group, root, child) {
                let from = blocks.parts(Buffer::Input, first, number);
                schedule.send(group.place(child, root), from);
            }
        }
        if let Some(own) = own {
            schedule.copy(blocks.part(Buffer::Input, root), own);
        }
        return;
    };
    let own = own.expect("only the root may be in place");
    let span = tree::span(relative, group.size);
    let subtree = match span {
        1 => own,
        _ => schedule.take_scratch(blocks.sum(0, span)),
    };
    let mut start = 0;
    for (_, number) in tree::messages(group, root, relative) {
        let part = subtree.part(start, blocks.sum(0, number));
        schedule.receive(group.place(parent, root), part);
        start += part.count;
    }
    schedule.fence();
    for child in tree::children(relative, group.size) {
        let number = tree::span(child, group.size);
        let from = blocks.parts(Buffer::Scratch, child - relative, number);
        schedule.send(group.place(child, root), from);
    }
    schedule.copy(subtree.part(0, count), own);
}
