//! The binomial tree of places `0..size`: the parent of a place is the place without its
//! lowest bit, so each subtree is a range of places.

use crate::group::Group;

/// Number of places in the subtree of `place`, which are `place..place + span`.
pub fn span(place: u32, size: u32) -> u32 {
    match place {
        0 => size,
        _ => (1 << place.trailing_zeros()).min(size - place),
    }
}

/// The place above `place`.
pub fn parent(place: u32) -> Option<u32> {
    place.checked_sub(1).map(|below| place & below)
}

/// The places directly below `place`, the largest subtree first.
pub fn children(place: u32, size: u32) -> impl DoubleEndedIterator<Item = u32> {
    let bits = match place {
        0 => size.next_power_of_two().trailing_zeros(),
        _ => place.trailing_zeros(),
    };
    let child = move |bit| place.checked_add(1_u32 << bit).filter(|it| *it < size);
    (0..bits).rev().filter_map(child)
}

/// The messages between `relative` and its parent when the blocks of its subtree pass, as ranges
/// `(first place, number of places)`. The root has all blocks in the order of places, so what it
/// sends or receives is cut where the ring of places ends.
pub fn messages(group: Group, root: u32, relative: u32) -> impl Iterator<Item = (u32, u32)> {
    let number = span(relative, group.size);
    let first = group.place(relative, root);
    let before_end = match parent(relative) {
        Some(0) => number.min(group.size - first),
        _ => number,
    };
    [(first, before_end), (0, number - before_end)]
        .into_iter()
        .filter(|(_, number)| *number > 0)
}
