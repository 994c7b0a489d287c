//! Messages that came before their receive.

use super::directory::Directory;
use super::envelope::{Envelope, Pattern};
use super::pool::{Handle, List, Pool};
use refrain_ring::Rank;

/// Each message is on two lists: of all messages, and of its envelope.
const ARRIVAL: usize = 0;
const ENVELOPE: usize = 1;

/// Names an unexpected message until it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnexpectedId(Handle);

#[derive(Debug)]
pub(super) struct Unexpected<M> {
    pool: Pool<(Envelope, M), 2>,
    exact: Directory,
    arrivals: List,
}

impl<M> Unexpected<M> {
    pub(super) fn new() -> Self {
        Self {
            pool: Pool::new(),
            exact: Directory::new(),
            arrivals: List::EMPTY,
        }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.pool.count()
    }

    #[inline]
    pub(super) fn push(&mut self, envelope: Envelope, value: M) -> UnexpectedId {
        let index = self.pool.insert((envelope, value));
        let pool = &mut self.pool;
        pool.link_last::<ARRIVAL>(&mut self.arrivals, index);
        self.exact
            .append(&envelope, |list| pool.link_last::<ENVELOPE>(list, index));
        UnexpectedId(self.pool.handle(index))
    }

    #[inline]
    pub(super) fn find(&self, pattern: &Pattern) -> Option<(UnexpectedId, &Envelope, &M)> {
        self.first(pattern).map(|index| self.entry(index))
    }

    #[inline]
    pub(super) fn take(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        let Some(envelope) = pattern.exact() else {
            return self.first(pattern).map(|index| self.remove_at(index));
        };
        let (place, index) = self.exact.oldest(&envelope)?;
        Some(self.remove_from(place, index))
    }

    #[inline]
    pub(super) fn remove(&mut self, id: UnexpectedId) -> Option<(Envelope, M)> {
        let index = self.pool.resolve(id.0)?;
        Some(self.remove_at(index))
    }

    #[inline]
    pub(super) fn get(&self, id: UnexpectedId) -> Option<&M> {
        let index = self.pool.resolve(id.0)?;
        Some(&self.pool.get(index).1)
    }

    pub(super) fn of(&self, source: Rank) -> impl Iterator<Item = (UnexpectedId, &Envelope, &M)> {
        self.pool
            .iter::<ARRIVAL>(self.arrivals)
            .filter(move |(_, (envelope, _))| envelope.source == source)
            .map(|(index, _)| self.entry(index))
    }

    /// MPI-4.1, 3.5: messages of one sender that satisfy the same receive are
    /// taken in the order in which they were sent, which is that of arrival.
    #[inline]
    fn first(&self, pattern: &Pattern) -> Option<u32> {
        match pattern.exact() {
            Some(envelope) => self.exact.oldest(&envelope).map(|(_, index)| index),
            None => self
                .pool
                .iter::<ARRIVAL>(self.arrivals)
                .find(|(_, (envelope, _))| pattern.accepts(envelope))
                .map(|(index, _)| index),
        }
    }

    #[inline]
    fn entry(&self, index: u32) -> (UnexpectedId, &Envelope, &M) {
        let (envelope, value) = self.pool.get(index);
        (UnexpectedId(self.pool.handle(index)), envelope, value)
    }

    fn remove_at(&mut self, index: u32) -> (Envelope, M) {
        let place = self.exact.place(&self.pool.get(index).0);
        self.remove_from(
            place.expect("every message is on the list of its envelope"),
            index,
        )
    }

    #[inline]
    fn remove_from(&mut self, place: usize, index: u32) -> (Envelope, M) {
        let pool = &mut self.pool;
        pool.unlink::<ARRIVAL>(&mut self.arrivals, index);
        self.exact
            .unlink(place, |list| pool.unlink::<ENVELOPE>(list, index));
        self.pool.remove(index)
    }
}

#[cfg(test)]
impl<M> Unexpected<M> {
    pub(super) fn slots_and_places(&self) -> (usize, usize) {
        (self.pool.slots(), self.exact.places())
    }
}
