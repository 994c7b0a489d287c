//! Which message goes to which receive: MPI's matching rules (MPI-4.1, 3.5).
//!
//! A [`Matcher`] holds the receives that wait for a message and the messages that arrived before
//! their receive. It is pure: results depend only on the order of calls. The caller decides what a
//! receive or a message *is*.
//!
//! | operation | cost |
//! |---|---|
//! | post; remove by id | O(1) |
//! | cancel | O(receives) |
//! | message to an exact receive | O(1), and O(wildcards posted before it); once O(receives on the row) |
//! | message to a wildcard receive | O(wildcards posted before it) |
//! | exact receive or probe of an unexpected message | O(1) |
//! | wildcard receive or probe of one | O(messages that arrived before it) |
//!
//! No cost depends on how many entries share an envelope. No operation allocates once the queues
//! have been as long before.
//!
//! Messages mostly come in the order of their receives. So exact receives first stand in one *row*
//! in that order, where only the oldest one is compared. A message that it does not accept moves
//! the row to the lists by envelope, which receives then use until all of them are empty.

mod directory;
mod pool;
mod row;

#[cfg(test)]
mod tests;

pub use directory::Envelope;

use directory::Directory;
use pool::{Handle, List, NONE, Pool};
use refrain_ring::Rank;
use row::Row;
use std::collections::VecDeque;

/// The matching part of a receive or a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Communication context; has no wildcard.
    pub context: u32,
    /// The sender, or `None` for any source.
    pub source: Option<Rank>,
    /// The tag, or `None` for any tag.
    pub tag: Option<i32>,
}

impl Pattern {
    /// Whether a message with this envelope satisfies the pattern.
    #[inline]
    pub fn accepts(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && self.source.is_none_or(|source| source == envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }

    /// The only envelope that the pattern accepts, if it has no wildcard.
    #[inline]
    fn exact(&self) -> Option<Envelope> {
        Some(Envelope {
            context: self.context,
            source: self.source?,
            tag: self.tag?,
        })
    }
}

impl From<Envelope> for Pattern {
    fn from(envelope: Envelope) -> Self {
        Self {
            context: envelope.context,
            source: Some(envelope.source),
            tag: Some(envelope.tag),
        }
    }
}

/// Names a posted receive until it is matched or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostedId(Handle);

/// Names an unexpected message until it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnexpectedId(Handle);

/// Posted receives with values `R`, unexpected messages with values `M`.
///
/// Ids are never used twice: the id of a removed entry finds nothing.
#[derive(Debug)]
pub struct Matcher<R, M> {
    /// Number of receives and messages so far: the number of the next one.
    entries: u64,
    /// Exact receives: all of them, or none.
    row: Row<R>,
    /// Exact receives that are not in the row; each is on the list of its envelope.
    receives: Pool<(Envelope, R), 1>,
    exact_receives: Directory,
    /// Receives with wildcards, oldest first.
    wildcards: VecDeque<(Handle, Pattern, R)>,
    /// Messages; each is on two lists: of all messages, and of its envelope.
    messages: Pool<(Envelope, M), 2>,
    messages_by_envelope: Directory,
    arrivals: List,
}

impl<R: Copy, M> Default for Matcher<R, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Copy, M> Matcher<R, M> {
    /// Creates a matcher without receives and messages.
    pub fn new() -> Self {
        Self {
            entries: 0,
            row: Row::new(),
            receives: Pool::new(),
            exact_receives: Directory::new(),
            wildcards: VecDeque::new(),
            messages: Pool::new(),
            messages_by_envelope: Directory::new(),
            arrivals: List::EMPTY,
        }
    }

    /// Takes the first unexpected message that the pattern accepts, or posts the receive.
    ///
    /// # Errors
    /// When no message has arrived: the receive is posted.
    #[inline(always)]
    pub fn take_or_post(&mut self, pattern: &Pattern, value: R) -> Result<M, PostedId> {
        match self.take_unexpected(pattern) {
            Some((_, message)) => Ok(message),
            None => Err(self.post_this(pattern, value)),
        }
    }

    /// Number of receives that wait.
    #[inline]
    pub fn posted_count(&self) -> usize {
        self.row.len() + self.receives.count() + self.wildcards.len()
    }

    /// Posts a receive that no unexpected message satisfies.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, value: R) -> PostedId {
        self.post_this(&pattern, value)
    }

    #[inline(always)]
    fn post_this(&mut self, pattern: &Pattern, value: R) -> PostedId {
        let (number, index) = (self.entries, NONE);
        self.entries += 1;
        match pattern.exact() {
            Some(envelope) if self.exact_receives.is_empty() => {
                self.row.push(number, envelope, value);
                PostedId(Handle { number, index })
            }
            _ => PostedId(self.post_other(number, *pattern, value)),
        }
    }

    // A function of its own, for the sake of receives that join the row.
    #[inline(never)]
    fn post_other(&mut self, number: u64, pattern: Pattern, value: R) -> Handle {
        if let Some(envelope) = pattern.exact() {
            return self.post_listed(number, envelope, value);
        }
        let index = NONE;
        let handle = Handle { number, index };
        self.wildcards.push_back((handle, pattern, value));
        handle
    }

    /// Posts an exact receive on the list of its envelope.
    fn post_listed(&mut self, number: u64, envelope: Envelope, value: R) -> Handle {
        let (pool, receive) = (&mut self.receives, (envelope, value));
        let append = |list: &mut List| pool.append(number, receive, [list]);
        let index = self.exact_receives.append(&envelope, append);
        Handle { number, index }
    }

    /// Takes a posted receive back; `None` if it was matched or cancelled.
    pub fn cancel(&mut self, id: PostedId) -> Option<R> {
        let Handle { number, index } = id.0;
        if index == NONE {
            if let Some(value) = self.row.remove(number) {
                return Some(value);
            }
            if let Ok(at) = self.wildcards.binary_search_by_key(&id.0, |it| it.0) {
                return self.wildcards.remove(at).map(|(_, _, value)| value);
            }
        }
        // One that has left the row has its number, and a place that its id does not tell.
        let index = match index {
            NONE => self.receives.find(number),
            _ => self.receives.resolve(id.0),
        }?;
        let place = self.exact_receives.place(&self.receives.get(index).0)?;
        Some(self.remove_listed(place, index).1)
    }

    /// Takes the earliest posted receive that accepts the message.
    ///
    /// MPI-4.1, 3.5: of the receives that a message satisfies, the one that was
    /// posted first gets it.
    #[inline(always)]
    pub fn take_posted(&mut self, envelope: Envelope) -> Option<(Pattern, R)> {
        if self.wildcards.is_empty() && self.row.first().is_some_and(|it| it.1 == envelope) {
            let (_, envelope, value) = self.row.pop()?;
            return Some((envelope.into(), value));
        }
        self.take_other(envelope)
    }

    /// As [`take_posted`](Self::take_posted), where the message may not be that of the oldest receive.
    // A function of its own: inlined, it would slow down messages to exact receives.
    #[inline(never)]
    fn take_other(&mut self, envelope: Envelope) -> Option<(Pattern, R)> {
        let envelope = &envelope;
        let exact = self.oldest_exact(envelope);
        if let Some(at) = self.first_wildcard(envelope, exact.map(|it| it.0)) {
            let (_, pattern, value) = self.wildcards.remove(at)?;
            return Some((pattern, value));
        }
        let (envelope, value) = match exact?.1 {
            Some((place, index)) => self.remove_listed(place, index),
            None => self.row.pop().map(|it| (it.1, it.2))?,
        };
        Some((envelope.into(), value))
    }

    /// The receive that [`take_posted`](Self::take_posted) would take.
    pub fn find_posted(&mut self, envelope: &Envelope) -> Option<&R> {
        let exact = self.oldest_exact(envelope);
        if let Some(at) = self.first_wildcard(envelope, exact.map(|it| it.0)) {
            return Some(&self.wildcards[at].2);
        }
        match exact?.1 {
            Some((_, index)) => Some(&self.receives.get(index).1),
            None => self.row.first().map(|it| &it.2),
        }
    }

    /// The number of the oldest receive of this envelope, and its place on a list; `None`: it is the
    /// first in the row.
    fn oldest_exact(&mut self, envelope: &Envelope) -> Option<(u64, Option<(usize, u32)>)> {
        if let Some((number, of, _)) = self.row.first() {
            if of == envelope {
                return Some((*number, None));
            }
            self.leave_row();
        }
        let (place, index) = self.exact_receives.oldest(envelope)?;
        Some((self.receives.number(index), Some((place, index))))
    }

    /// Moves all receives from the row to the lists of their envelopes.
    #[cold]
    fn leave_row(&mut self) {
        while let Some((number, envelope, value)) = self.row.pop() {
            self.post_listed(number, envelope, value);
        }
    }

    /// The place of the first wildcard receive that accepts the message, among those posted
    /// before the exact receive that accepts it, which has this number.
    fn first_wildcard(&self, envelope: &Envelope, exact: Option<u64>) -> Option<usize> {
        let before = exact.unwrap_or(u64::MAX);
        let wildcards = self.wildcards.iter();
        wildcards
            .take_while(|(handle, _, _)| handle.number < before)
            .position(|(_, pattern, _)| pattern.accepts(envelope))
    }

    /// Removes an exact receive from the list at this place.
    fn remove_listed(&mut self, place: usize, index: u32) -> (Envelope, R) {
        let pool = &mut self.receives;
        let take = |list: &mut List| pool.take(index, [list]);
        self.exact_receives.unlink(place, take)
    }

    /// Number of messages that wait.
    #[inline]
    pub fn unexpected_count(&self) -> usize {
        self.messages.count()
    }

    /// Adds a message that no posted receive accepts.
    #[inline]
    pub fn push_unexpected(&mut self, envelope: Envelope, value: M) -> UnexpectedId {
        let (pool, arrivals, number) = (&mut self.messages, &mut self.arrivals, self.entries);
        self.entries += 1;
        let append = |list: &mut List| pool.append(number, (envelope, value), [arrivals, list]);
        let index = self.messages_by_envelope.append(&envelope, append);
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
    #[inline(always)]
    pub fn take_unexpected(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        if self.messages.count() == 0 {
            return None;
        }
        self.take_first(pattern)
    }

    fn take_first(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        let Some(envelope) = pattern.exact() else {
            return self
                .first_unexpected(pattern)
                .map(|index| self.remove_at(index));
        };
        let (place, index) = self.messages_by_envelope.oldest(&envelope)?;
        Some(self.remove_from(place, index))
    }

    /// Takes the message that a probe found, for a matched probe. `None` if the message is gone.
    #[inline]
    pub fn remove_unexpected(&mut self, id: UnexpectedId) -> Option<(Envelope, M)> {
        let index = self.messages.resolve(id.0)?;
        Some(self.remove_at(index))
    }

    /// The value of a message that still waits.
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
            .iter(self.arrivals)
            .filter(move |(_, (envelope, _))| envelope.source == source)
            .map(|(index, _)| self.entry(index))
    }

    /// MPI-4.1, 3.5: messages of one sender that satisfy the same receive are
    /// taken in the order in which they were sent, which is that of arrival.
    #[inline]
    fn first_unexpected(&self, pattern: &Pattern) -> Option<u32> {
        if let Some(envelope) = pattern.exact() {
            let oldest = self.messages_by_envelope.oldest(&envelope);
            return oldest.map(|(_, index)| index);
        }
        let mut messages = self.messages.iter(self.arrivals);
        let first = messages.find(|(_, (envelope, _))| pattern.accepts(envelope));
        first.map(|(index, _)| index)
    }

    #[inline]
    fn entry(&self, index: u32) -> (UnexpectedId, &Envelope, &M) {
        let (envelope, value) = self.messages.get(index);
        (UnexpectedId(self.messages.handle(index)), envelope, value)
    }

    fn remove_at(&mut self, index: u32) -> (Envelope, M) {
        let place = self.messages_by_envelope.place(&self.messages.get(index).0);
        let place = place.expect("every message is on the list of its envelope");
        self.remove_from(place, index)
    }

    #[inline]
    fn remove_from(&mut self, place: usize, index: u32) -> (Envelope, M) {
        let (pool, arrivals) = (&mut self.messages, &mut self.arrivals);
        let take = |list: &mut List| pool.take(index, [arrivals, list]);
        self.messages_by_envelope.unlink(place, take)
    }
}

#[cfg(test)]
impl<R, M> Matcher<R, M> {
    fn posted_slots_and_places(&self) -> (usize, usize, usize) {
        let exact = self.row.capacity() + self.receives.slots();
        let wildcards = self.wildcards.capacity();
        (exact, wildcards, self.exact_receives.places())
    }

    fn unexpected_slots_and_places(&self) -> (usize, usize) {
        (self.messages.slots(), self.messages_by_envelope.places())
    }
}
