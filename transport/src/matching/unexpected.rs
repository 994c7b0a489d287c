//! Messages that came before their receive.

use super::Matcher;
use super::envelope::{Envelope, Pattern};
use super::pool::Handle;
use refrain_ring::Rank;

/// The two lists that a message is on.
const ARRIVAL: usize = 0;
const ENVELOPE: usize = 1;

/// Names an unexpected message until it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnexpectedId(Handle);

impl<R, M> Matcher<R, M> {
    /// How many messages wait.
    #[inline]
    pub fn unexpected_count(&self) -> usize {
        self.messages.count()
    }

    /// Adds a message that no posted receive accepts.
    #[inline]
    pub fn push_unexpected(&mut self, envelope: Envelope, value: M) -> UnexpectedId {
        let index = self.messages.insert((envelope, value));
        let pool = &mut self.messages;
        pool.link_last::<ARRIVAL>(&mut self.arrivals, index);
        self.messages_by_envelope
            .append(&envelope, |list| pool.link_last::<ENVELOPE>(list, index));
        UnexpectedId(self.messages.handle(index))
    }

    /// The message that [`take_unexpected`](Self::take_unexpected) would take:
    /// a probe.
    #[inline]
    pub fn find_unexpected(&self, pattern: &Pattern) -> Option<(UnexpectedId, &Envelope, &M)> {
        self.first_unexpected(pattern)
            .map(|index| self.entry(index))
    }

    /// Takes the first unexpected message, in arrival order, that the pattern
    /// accepts: a receive.
    #[inline]
    pub fn take_unexpected(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        if self.messages.count() == 0 {
            return None;
        }
        let Some(envelope) = pattern.exact() else {
            return self
                .first_unexpected(pattern)
                .map(|index| self.remove_at(index));
        };
        let (place, index) = self.messages_by_envelope.oldest(&envelope)?;
        Some(self.remove_from(place, index))
    }

    /// Takes the message of a probe: a matched probe. `None` if it is gone.
    #[inline]
    pub fn remove_unexpected(&mut self, id: UnexpectedId) -> Option<(Envelope, M)> {
        let index = self.messages.resolve(id.0)?;
        Some(self.remove_at(index))
    }

    /// The value of a message that is still there.
    #[inline]
    pub fn unexpected_value(&self, id: UnexpectedId) -> Option<&M> {
        let index = self.messages.resolve(id.0)?;
        Some(&self.messages.get(index).1)
    }

    /// The messages of one sender in arrival order. Scans all messages.
    pub fn unexpected_of(
        &self,
        source: Rank,
    ) -> impl Iterator<Item = (UnexpectedId, &Envelope, &M)> {
        self.messages
            .iter::<ARRIVAL>(self.arrivals)
            .filter(move |(_, (envelope, _))| envelope.source == source)
            .map(|(index, _)| self.entry(index))
    }

    /// MPI-4.1, 3.5: messages of one sender that satisfy the same receive are
    /// taken in the order in which they were sent, which is that of arrival.
    #[inline]
    fn first_unexpected(&self, pattern: &Pattern) -> Option<u32> {
        match pattern.exact() {
            Some(envelope) => self
                .messages_by_envelope
                .oldest(&envelope)
                .map(|(_, index)| index),
            None => self
                .messages
                .iter::<ARRIVAL>(self.arrivals)
                .find(|(_, (envelope, _))| pattern.accepts(envelope))
                .map(|(index, _)| index),
        }
    }

    #[inline]
    fn entry(&self, index: u32) -> (UnexpectedId, &Envelope, &M) {
        let (envelope, value) = self.messages.get(index);
        (UnexpectedId(self.messages.handle(index)), envelope, value)
    }

    fn remove_at(&mut self, index: u32) -> (Envelope, M) {
        let place = self.messages_by_envelope.place(&self.messages.get(index).0);
        self.remove_from(
            place.expect("every message is on the list of its envelope"),
            index,
        )
    }

    #[inline]
    fn remove_from(&mut self, place: usize, index: u32) -> (Envelope, M) {
        let pool = &mut self.messages;
        pool.unlink::<ARRIVAL>(&mut self.arrivals, index);
        self.messages_by_envelope
            .unlink(place, |list| pool.unlink::<ENVELOPE>(list, index));
        self.messages.remove(index)
    }
}

#[cfg(test)]
impl<R, M> Matcher<R, M> {
    pub(super) fn unexpected_slots_and_places(&self) -> (usize, usize) {
        (self.messages.slots(), self.messages_by_envelope.places())
    }
}
