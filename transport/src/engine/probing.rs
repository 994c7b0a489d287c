//! Probes, and the events that only their caller can see.

use super::{Engine, Matched, Status};
use crate::matching::Pattern;
use crate::protocol::{Event, Protocol};
use refrain_ring::{Clock, Ssn};

impl<P: Protocol> Engine<P> {
    /// Looks for a message without taking it.
    pub fn find(&self, pattern: &Pattern) -> Option<(Status, Ssn)> {
        let (_, _, index) = self.inbox.matcher.find_unexpected(pattern)?;
        let message = &self.inbox.messages[*index];
        Some((message.status(), message.ssn))
    }

    /// Takes a message so that no other receive gets it.
    pub fn take_matched(&mut self, pattern: &Pattern) -> Option<(Matched, Ssn)> {
        let (_, index) = self.inbox.matcher.take_unexpected(pattern)?;
        self.inbox.note_taken(index);
        let message = &self.inbox.messages[index];
        Some((
            Matched {
                index,
                status: message.status(),
            },
            message.ssn,
        ))
    }

    /// Tells the protocol of a probe's success.
    pub fn note_probe(&mut self, clock: Clock, found: &Status, ssn: Ssn) {
        self.note(Event::Probe {
            clock,
            source: found.source,
            ssn,
            tag: found.tag,
            bytes: found.bytes,
        });
    }

    /// Tells the protocol of a timing-dependent completion.
    pub fn note_completion(&mut self, clock: Clock, requests: &[Clock]) {
        self.note(Event::Completion { clock, requests });
    }

    /// Tells the protocol of a timing-dependent completion of requests that `collect`
    /// names.
    pub fn note_completions(&mut self, clock: Clock, collect: impl FnOnce(&Self, &mut Vec<Clock>)) {
        // Memory that is used again.
        let mut requests = core::mem::take(&mut self.completed);
        requests.clear();
        collect(self, &mut requests);
        self.note_completion(clock, &requests);
        self.completed = requests;
    }

    /// Tells the protocol of a receive that was taken back.
    pub(super) fn note_cancelled(&mut self, clock: Clock, request: Clock) {
        self.note(Event::Cancelled { clock, request });
    }

    /// Tells the protocol of a test or probe that found nothing.
    pub fn note_nothing(&mut self, clock: Clock) {
        self.note(Event::Nothing { clock });
    }

    #[inline]
    pub(super) fn note(&mut self, event: Event<'_>) {
        self.statistics.events += 1;
        let seen = match &event {
            Event::Match { .. } => None,
            Event::Probe { clock, .. } => Some((*clock, "a probe that found a message")),
            Event::Completion { clock, .. } => Some((*clock, "a wait or test that ended requests")),
            Event::Cancelled { clock, .. } => Some((*clock, "a cancel of a receive")),
            Event::Nothing { clock } => {
                Some((*clock, "a probe, test or cancel that found nothing"))
            }
            Event::Number { clock, .. } => Some((*clock, "a number from outside, as the time")),
            Event::Bytes { clock, .. } => Some((*clock, "bytes from outside, as random ones")),
        };
        let must_wait = self.protocol.event(event);
        self.gate.note_events(u64::from(must_wait));
        if self.plays_again
            && must_wait
            && let Some((clock, what)) = seen
        {
            self.saw_unrecorded(clock, what);
        }
    }
}
