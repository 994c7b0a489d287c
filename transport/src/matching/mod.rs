//! Which message goes to which receive: MPI's matching rules (MPI-4.1, 3.5).
//!
//! A [`Matcher`] holds the receives that wait for a message and the messages
//! that came before their receive; it is pure: what happens depends only on the
//! order of calls. What a receive or a message *is* is the caller's affair.
//!
//! | operation | cost |
//! |---|---|
//! | post; cancel; remove by id | O(1) |
//! | message to an exact receive | O(1), and O(wildcards posted before it) |
//! | message to a wildcard receive | O(wildcards posted before it) |
//! | exact receive or probe of an unexpected message | O(1) |
//! | wildcard receive or probe of one | O(messages that arrived before it) |
//!
//! None depends on how many entries share an envelope, and none allocates once
//! the queues have been as long before.

mod directory;
mod envelope;
mod pool;
mod posted;
mod unexpected;

#[cfg(test)]
mod tests;

pub use envelope::{Envelope, Pattern};
pub use posted::PostedId;
pub use unexpected::UnexpectedId;

use posted::Posted;
use refrain_ring::Rank;
use unexpected::Unexpected;

/// Posted receives with values `R`, unexpected messages with values `M`.
///
/// The two sides do not look at each other: who posts a receive has tried
/// [`take_unexpected`](Self::take_unexpected) before, who adds an unexpected
/// message has tried [`take_posted`](Self::take_posted).
///
/// Ids are never used twice: one whose entry is gone finds nothing.
#[derive(Debug)]
pub struct Matcher<R, M> {
    posted: Posted<R>,
    unexpected: Unexpected<M>,
}

impl<R, M> Matcher<R, M> {
    /// Without receives and messages.
    pub fn new() -> Self {
        Self {
            posted: Posted::new(),
            unexpected: Unexpected::new(),
        }
    }

    /// Posts a receive that no unexpected message satisfies.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, value: R) -> PostedId {
        self.posted.push(pattern, value)
    }

    /// Takes a posted receive back; `None` if it was matched or cancelled.
    #[inline]
    pub fn cancel(&mut self, id: PostedId) -> Option<R> {
        self.posted.remove(id).map(|(_, value)| value)
    }

    /// Takes the earliest posted receive that accepts the message.
    #[inline]
    pub fn take_posted(&mut self, envelope: &Envelope) -> Option<(Pattern, R)> {
        self.posted.take(envelope)
    }

    /// The receive that [`take_posted`](Self::take_posted) would take.
    pub fn find_posted(&self, envelope: &Envelope) -> Option<&R> {
        self.posted.find(envelope)
    }

    /// How many receives wait.
    #[inline]
    pub fn posted_count(&self) -> usize {
        self.posted.count()
    }

    /// Adds a message that no posted receive accepts.
    #[inline]
    pub fn push_unexpected(&mut self, envelope: Envelope, value: M) -> UnexpectedId {
        self.unexpected.push(envelope, value)
    }

    /// Takes the first unexpected message, in arrival order, that the pattern
    /// accepts: a receive.
    #[inline]
    pub fn take_unexpected(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        if self.unexpected.count() == 0 {
            return None;
        }
        self.unexpected.take(pattern)
    }

    /// The message that [`take_unexpected`](Self::take_unexpected) would take:
    /// a probe.
    #[inline]
    pub fn find_unexpected(&self, pattern: &Pattern) -> Option<(UnexpectedId, &Envelope, &M)> {
        self.unexpected.find(pattern)
    }

    /// Takes the message of a probe: a matched probe. `None` if it is gone.
    #[inline]
    pub fn remove_unexpected(&mut self, id: UnexpectedId) -> Option<(Envelope, M)> {
        self.unexpected.remove(id)
    }

    /// The value of a message that is still there.
    #[inline]
    pub fn unexpected_value(&self, id: UnexpectedId) -> Option<&M> {
        self.unexpected.get(id)
    }

    /// The messages of one sender in arrival order. Scans all messages.
    pub fn unexpected_of(
        &self,
        source: Rank,
    ) -> impl Iterator<Item = (UnexpectedId, &Envelope, &M)> {
        self.unexpected.of(source)
    }

    /// How many messages wait.
    #[inline]
    pub fn unexpected_count(&self) -> usize {
        self.unexpected.count()
    }
}

impl<R, M> Default for Matcher<R, M> {
    fn default() -> Self {
        Self::new()
    }
}
