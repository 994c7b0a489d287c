//! Receives that wait for their message.

use super::directory::Directory;
use super::envelope::{Envelope, Pattern};
use super::pool::{Handle, List, Pool};

/// Each receive is on one list: that of its envelope if it is exact, else the
/// wildcards'.
const WAITING: usize = 0;

/// Names a posted receive until it is matched or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostedId(Handle);

#[derive(Debug)]
pub(super) struct Posted<R> {
    pool: Pool<(Pattern, R), 1>,
    exact: Directory,
    wildcards: List,
}

impl<R> Posted<R> {
    pub(super) fn new() -> Self {
        Self {
            pool: Pool::new(),
            exact: Directory::new(),
            wildcards: List::EMPTY,
        }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.pool.count()
    }

    #[inline]
    pub(super) fn push(&mut self, pattern: Pattern, value: R) -> PostedId {
        let index = self.pool.insert((pattern, value));
        let pool = &mut self.pool;
        match pattern.exact() {
            Some(envelope) => self
                .exact
                .append(&envelope, |list| pool.link_last::<WAITING>(list, index)),
            None => pool.link_last::<WAITING>(&mut self.wildcards, index),
        }
        PostedId(self.pool.handle(index))
    }

    #[inline]
    pub(super) fn remove(&mut self, id: PostedId) -> Option<(Pattern, R)> {
        let index = self.pool.resolve(id.0)?;
        let exact = self.pool.get(index).0.exact();
        Some(match exact {
            Some(envelope) => self.remove_exact(self.exact.place(&envelope)?, index),
            None => self.remove_wildcard(index),
        })
    }

    /// MPI-4.1, 3.5: of the receives that a message satisfies, the one that was
    /// posted first gets it.
    #[inline]
    pub(super) fn take(&mut self, envelope: &Envelope) -> Option<(Pattern, R)> {
        let exact = self.exact.oldest(envelope);
        let before = exact.map_or(u64::MAX, |(_, index)| self.pool.number(index));
        if let Some(index) = self.first_wildcard(envelope, before) {
            return Some(self.remove_wildcard(index));
        }
        let (place, index) = exact?;
        Some(self.remove_exact(place, index))
    }

    /// The one that `take` would take.
    pub(super) fn find(&self, envelope: &Envelope) -> Option<&R> {
        let exact = self.exact.oldest(envelope).map(|(_, index)| index);
        let before = exact.map_or(u64::MAX, |index| self.pool.number(index));
        let index = self.first_wildcard(envelope, before).or(exact)?;
        Some(&self.pool.get(index).1)
    }

    /// The first wildcard receive that accepts the message, among those posted
    /// before number `before`.
    #[inline]
    fn first_wildcard(&self, envelope: &Envelope, before: u64) -> Option<u32> {
        self.pool
            .iter::<WAITING>(self.wildcards)
            .take_while(|&(index, _)| self.pool.number(index) < before)
            .find(|(_, (pattern, _))| pattern.accepts(envelope))
            .map(|(index, _)| index)
    }

    #[inline]
    fn remove_exact(&mut self, place: usize, index: u32) -> (Pattern, R) {
        let pool = &mut self.pool;
        self.exact
            .unlink(place, |list| pool.unlink::<WAITING>(list, index));
        self.pool.remove(index)
    }

    #[inline]
    fn remove_wildcard(&mut self, index: u32) -> (Pattern, R) {
        self.pool.unlink::<WAITING>(&mut self.wildcards, index);
        self.pool.remove(index)
    }
}

#[cfg(test)]
impl<R> Posted<R> {
    pub(super) fn slots_and_places(&self) -> (usize, usize) {
        (self.pool.slots(), self.exact.places())
    }
}
