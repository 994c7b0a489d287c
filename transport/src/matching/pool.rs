//! Entries in a slab, threaded on doubly linked lists by index.
//!
//! The slab grows to the largest number of entries that were there at once and
//! is reused from then on: no allocation once warm. Every entry is numbered at
//! its insertion; the numbers order entries by age across lists, and tell a
//! stale [`Handle`] from a live one however often its slot was reused.

/// Ends a list; no slot has this index.
const NONE: u32 = u32::MAX;

/// Names an entry for as long as it is there, and nothing afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handle {
    number: u64,
    index: u32,
}

/// First and last entry of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

#[derive(Clone, Copy, Debug)]
struct Links {
    previous: u32,
    next: u32,
}

/// A slot of the slab. A free one has no value and its first `next` leads to
/// the next free one.
#[derive(Debug)]
struct Node<T, const LISTS: usize> {
    number: u64,
    links: [Links; LISTS],
    value: Option<T>,
}

/// The slab. Each entry can be on `LISTS` lists at once, named by constants.
#[derive(Debug)]
pub(super) struct Pool<T, const LISTS: usize> {
    nodes: Vec<Node<T, LISTS>>,
    free: u32,
    next_number: u64,
    count: usize,
}

impl List {
    pub(super) const EMPTY: List = List {
        head: NONE,
        tail: NONE,
    };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.head == NONE
    }

    /// The oldest entry.
    #[inline]
    pub(super) fn first(self) -> Option<u32> {
        some(self.head)
    }
}

impl Links {
    const NONE: Links = Links {
        previous: NONE,
        next: NONE,
    };
}

impl<T, const LISTS: usize> Pool<T, LISTS> {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: NONE,
            next_number: 0,
            count: 0,
        }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Adds an entry, on no list yet.
    #[inline]
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        self.count += 1;
        let index = self.free;
        if index == NONE {
            return self.grow(number, value);
        }
        let node = &mut self.nodes[index as usize];
        self.free = node.links[0].next;
        node.number = number;
        node.value = Some(value);
        index
    }

    #[cold]
    fn grow(&mut self, number: u64, value: T) -> u32 {
        let index = u32::try_from(self.nodes.len())
            .ok()
            .filter(|&index| index != NONE)
            .expect("2^32 entries take more memory than any rank has");
        self.nodes.push(Node {
            number,
            links: [Links::NONE; LISTS],
            value: Some(value),
        });
        index
    }

    /// Takes an entry out; it must have been unlinked from all its lists.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> T {
        let node = &mut self.nodes[index as usize];
        let value = node
            .value
            .take()
            .expect("lists and live handles lead to entries");
        node.links[0].next = self.free;
        self.free = index;
        self.count -= 1;
        value
    }

    #[inline]
    pub(super) fn handle(&self, index: u32) -> Handle {
        Handle {
            number: self.nodes[index as usize].number,
            index,
        }
    }

    /// Where the entry of a handle is, if it is still there.
    #[inline]
    pub(super) fn resolve(&self, handle: Handle) -> Option<u32> {
        let node = self.nodes.get(handle.index as usize)?;
        (node.number == handle.number && node.value.is_some()).then_some(handle.index)
    }

    /// Counts insertions: the smaller, the older.
    #[inline]
    pub(super) fn number(&self, index: u32) -> u64 {
        self.nodes[index as usize].number
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &T {
        self.nodes[index as usize]
            .value
            .as_ref()
            .expect("lists and live handles lead to entries")
    }

    /// Puts an entry at the end of a list.
    #[inline]
    pub(super) fn link_last<const LIST: usize>(&mut self, list: &mut List, index: u32) {
        self.nodes[index as usize].links[LIST] = Links {
            previous: list.tail,
            next: NONE,
        };
        match some(list.tail) {
            Some(tail) => self.nodes[tail as usize].links[LIST].next = index,
            None => list.head = index,
        }
        list.tail = index;
    }

    /// Takes an entry off the list that it is on.
    #[inline]
    pub(super) fn unlink<const LIST: usize>(&mut self, list: &mut List, index: u32) {
        let Links { previous, next } = self.nodes[index as usize].links[LIST];
        match some(previous) {
            Some(previous) => self.nodes[previous as usize].links[LIST].next = next,
            None => list.head = next,
        }
        match some(next) {
            Some(next) => self.nodes[next as usize].links[LIST].previous = previous,
            None => list.tail = previous,
        }
    }

    /// The entry behind this one.
    #[inline]
    pub(super) fn next<const LIST: usize>(&self, index: u32) -> Option<u32> {
        some(self.nodes[index as usize].links[LIST].next)
    }

    /// The entries of a list, oldest first.
    #[inline]
    pub(super) fn iter<const LIST: usize>(&self, list: List) -> impl Iterator<Item = (u32, &T)> {
        core::iter::successors(list.first(), |&index| self.next::<LIST>(index))
            .map(|index| (index, self.get(index)))
    }
}

#[cfg(test)]
impl<T, const LISTS: usize> Pool<T, LISTS> {
    pub(super) fn slots(&self) -> usize {
        self.nodes.len()
    }
}

#[inline]
fn some(index: u32) -> Option<u32> {
    (index != NONE).then_some(index)
}
