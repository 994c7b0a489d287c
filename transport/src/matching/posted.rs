//! Receives that wait for their message.

use super::Matcher;
use super::envelope::{Envelope, Pattern};
use super::pool::Handle;

/// The list that a receive is on.
const WAITING: usize = 0;

/// Names a posted receive until it is matched or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostedId(Handle);

impl<R, M> Matcher<R, M> {
    /// How many receives wait.
    #[inline]
    pub fn posted_count(&self) -> usize {
        self.receives.count()
    }

    /// Posts a receive that no unexpected message satisfies.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, value: R) -> PostedId {
        let index = self.receives.insert((pattern, value));
        let pool = &mut self.receives;
        match pattern.exact() {
            Some(envelope) => self
                .exact_receives
                .append(&envelope, |list| pool.link_last::<WAITING>(list, index)),
            None => pool.link_last::<WAITING>(&mut self.wildcards, index),
        }
        PostedId(self.receives.handle(index))
    }

    /// Takes a posted receive back; `None` if it was matched or cancelled.
    #[inline]
    pub fn cancel(&mut self, id: PostedId) -> Option<R> {
        let index = self.receives.resolve(id.0)?;
        let exact = self.receives.get(index).0.exact();
        let (_, value) = match exact {
            Some(envelope) => self.remove_exact(self.exact_receives.place(&envelope)?, index),
            None => self.remove_wildcard(index),
        };
        Some(value)
    }

    /// Takes the earliest posted receive that accepts the message.
    ///
    /// MPI-4.1, 3.5: of the receives that a message satisfies, the one that was
    /// posted first gets it.
    #[inline]
    pub fn take_posted(&mut self, envelope: &Envelope) -> Option<(Pattern, R)> {
        let exact = self.exact_receives.oldest(envelope);
        let before = exact.map_or(u64::MAX, |(_, index)| self.receives.number(index));
        if let Some(index) = self.first_wildcard(envelope, before) {
            return Some(self.remove_wildcard(index));
        }
        let (place, index) = exact?;
        Some(self.remove_exact(place, index))
    }

    /// The receive that [`take_posted`](Self::take_posted) would take.
    pub fn find_posted(&self, envelope: &Envelope) -> Option<&R> {
        let exact = self.exact_receives.oldest(envelope).map(|(_, index)| index);
        let before = exact.map_or(u64::MAX, |index| self.receives.number(index));
        let index = self.first_wildcard(envelope, before).or(exact)?;
        Some(&self.receives.get(index).1)
    }

    /// The first wildcard receive that accepts the message, among those posted
    /// before number `before`.
    #[inline]
    fn first_wildcard(&self, envelope: &Envelope, before: u64) -> Option<u32> {
        self.receives
            .iter::<WAITING>(self.wildcards)
            .take_while(|&(index, _)| self.receives.number(index) < before)
            .find(|(_, (pattern, _))| pattern.accepts(envelope))
            .map(|(index, _)| index)
    }

    #[inline]
    fn remove_exact(&mut self, place: usize, index: u32) -> (Pattern, R) {
        let pool = &mut self.receives;
        self.exact_receives
            .unlink(place, |list| pool.unlink::<WAITING>(list, index));
        self.receives.remove(index)
    }

    #[inline]
    fn remove_wildcard(&mut self, index: u32) -> (Pattern, R) {
        self.receives.unlink::<WAITING>(&mut self.wildcards, index);
        self.receives.remove(index)
    }
}

#[cfg(test)]
impl<R, M> Matcher<R, M> {
    pub(super) fn posted_slots_and_places(&self) -> (usize, usize) {
        (self.receives.slots(), self.exact_receives.places())
    }
}
