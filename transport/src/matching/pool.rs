//! Entries in a slab, threaded on doubly linked lists by index.
//!
//! The slab grows to the largest number of entries at one time and is reused from then on: no
//! allocation once warm. The caller numbers all entries in ascending order. The numbers order
//! entries by age across lists, and distinguish a stale [`Handle`] from a live one however often
//! its slot was reused.

/// Ends a list; no slot has this index.
pub(super) const NONE: u32 = u32::MAX;

const IS_THERE: &str = "lists and live handles lead to entries";

/// Names an entry as long as it exists, and no entry afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Handle {
    pub(super) number: u64,
    /// [`NONE`] of what is not in the slab.
    pub(super) index: u32,
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

/// The slab. Each entry is on `LISTS` lists at once.
#[derive(Debug)]
pub(super) struct Pool<T, const LISTS: usize> {
    nodes: Vec<Node<T, LISTS>>,
    free: u32,
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

impl<T, const LISTS: usize> Pool<T, LISTS> {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: NONE,
            count: 0,
        }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Adds an entry at the end of these lists. Its number is above those of earlier entries.
    #[inline]
    #[expect(
        clippy::needless_range_loop,
        reason = "iterators over the array are slower"
    )]
    pub(super) fn append(&mut self, number: u64, value: T, lists: [&mut List; LISTS]) -> u32 {
        let index = match some(self.free) {
            Some(index) => index,
            None => self.grow(),
        };
        let node = &mut self.nodes[index as usize];
        self.free = node.links[0].next;
        node.number = number;
        node.value = Some(value);
        for which in 0..LISTS {
            self.link(index, which, lists[which]);
        }
        self.count += 1;
        index
    }

    /// Adds a free slot.
    #[cold]
    fn grow(&mut self) -> u32 {
        let index = u32::try_from(self.nodes.len())
            .ok()
            .filter(|&index| index != NONE)
            .expect("2^32 entries take more memory than any rank has");
        let links = Links {
            previous: NONE,
            next: NONE,
        };
        self.nodes.push(Node {
            number: 0,
            links: [links; LISTS],
            value: None,
        });
        index
    }

    /// Removes an entry from the slab and from the lists that it is on.
    #[inline]
    #[expect(
        clippy::needless_range_loop,
        reason = "iterators over the array are slower"
    )]
    pub(super) fn take(&mut self, index: u32, lists: [&mut List; LISTS]) -> T {
        for which in 0..LISTS {
            self.unlink(index, which, lists[which]);
        }
        let node = &mut self.nodes[index as usize];
        node.links[0].next = self.free;
        self.free = index;
        self.count -= 1;
        node.value.take().expect(IS_THERE)
    }

    /// The index of the entry with this number. Scans all slots.
    pub(super) fn find(&self, number: u64) -> Option<u32> {
        let is_it = |it: &Node<T, LISTS>| it.number == number && it.value.is_some();
        Some(self.nodes.iter().position(is_it)? as u32)
    }

    /// Puts an entry at the end of a list.
    #[inline(always)]
    fn link(&mut self, index: u32, which: usize, list: &mut List) {
        self.nodes[index as usize].links[which] = Links {
            previous: list.tail,
            next: NONE,
        };
        match some(list.tail) {
            Some(tail) => self.nodes[tail as usize].links[which].next = index,
            None => list.head = index,
        }
        list.tail = index;
    }

    /// Takes an entry off a list.
    #[inline(always)]
    fn unlink(&mut self, index: u32, which: usize, list: &mut List) {
        let Links { previous, next } = self.nodes[index as usize].links[which];
        match some(previous) {
            Some(previous) => self.nodes[previous as usize].links[which].next = next,
            None => list.head = next,
        }
        match some(next) {
            Some(next) => self.nodes[next as usize].links[which].previous = previous,
            None => list.tail = previous,
        }
    }

    #[inline]
    pub(super) fn handle(&self, index: u32) -> Handle {
        Handle {
            number: self.nodes[index as usize].number,
            index,
        }
    }

    /// The index of a handle's entry, if the entry still exists.
    #[inline]
    pub(super) fn resolve(&self, handle: Handle) -> Option<u32> {
        let node = self.nodes.get(handle.index as usize)?;
        (node.number == handle.number && node.value.is_some()).then_some(handle.index)
    }

    /// The number of an entry: the smaller, the older.
    #[inline]
    pub(super) fn number(&self, index: u32) -> u64 {
        self.nodes[index as usize].number
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &T {
        self.nodes[index as usize].value.as_ref().expect(IS_THERE)
    }

    /// The entries of a list, oldest first. It must be the first of its entries' lists.
    #[inline]
    pub(super) fn iter(&self, list: List) -> impl Iterator<Item = (u32, &T)> {
        let next = |&index: &u32| some(self.nodes[index as usize].links[0].next);
        core::iter::successors(list.first(), next).map(|index| (index, self.get(index)))
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
