//! Receives in the order of their posts, of which the oldest is taken first.
//!
//! A list of which the beginning is over, since each post and each message takes a few instructions
//! then.

use super::directory::Envelope;

/// A receive with its number.
type Entry<R> = (u64, Envelope, R);

#[derive(Debug)]
pub(super) struct Row<R> {
    entries: Vec<Entry<R>>,
    /// Entries before it are taken. Below the length, except when both are 0.
    first: usize,
}

impl<R: Copy> Row<R> {
    pub(super) fn new() -> Self {
        Self {
            entries: Vec::new(),
            first: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.first
    }

    #[inline(always)]
    pub(super) fn first(&self) -> Option<&Entry<R>> {
        self.entries.get(self.first)
    }

    /// Adds a receive; its number is above those of the others.
    #[inline(always)]
    pub(super) fn push(&mut self, number: u64, envelope: Envelope, value: R) {
        if self.entries.len() == self.entries.capacity() {
            self.make_room();
        }
        self.entries.push((number, envelope, value));
    }

    /// Moves the entries to the beginning if half of the list is over; else the list grows.
    #[cold]
    fn make_room(&mut self) {
        if self.first * 2 > self.entries.len() {
            self.entries.drain(..self.first);
            self.first = 0;
        }
    }

    /// Takes the oldest receive.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Entry<R>> {
        let entry = *self.entries.get(self.first)?;
        self.first += 1;
        self.begin_anew_if_empty();
        Some(entry)
    }

    /// Takes the receive of this number.
    pub(super) fn remove(&mut self, number: u64) -> Option<R> {
        let left = &self.entries[self.first..];
        let at = left.binary_search_by_key(&number, |it| it.0).ok()?;
        let (_, _, value) = self.entries.remove(self.first + at);
        self.begin_anew_if_empty();
        Some(value)
    }

    #[inline(always)]
    fn begin_anew_if_empty(&mut self) {
        if self.first == self.entries.len() {
            self.entries.clear();
            self.first = 0;
        }
    }
}

#[cfg(test)]
impl<R> Row<R> {
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_ring::Rank;

    /// Always a few receives are posted: the row is never empty.
    #[test]
    fn a_row_that_is_never_empty_stays_short_and_in_order() {
        let envelope = Envelope {
            context: 0,
            source: Rank(0),
            tag: 0,
        };
        let mut row = Row::new();
        (0..5).for_each(|number| row.push(number, envelope, number));
        for number in 5..10_000 {
            row.push(number, envelope, number);
            assert_eq!(row.pop().map(|it| it.2), Some(number - 5));
            assert_eq!(
                (row.len(), row.first().map(|it| it.0)),
                (5, Some(number - 4))
            );
        }
        assert!(row.capacity() <= 16, "{}", row.capacity());
        assert_eq!(row.remove(9_997), Some(9_997));
        assert_eq!(row.remove(9_997), None);
        let left: Vec<u64> = core::iter::from_fn(|| row.pop()).map(|it| it.2).collect();
        assert_eq!(left, [9_995, 9_996, 9_998, 9_999]);
        assert_eq!(row.len(), 0);
    }
}
