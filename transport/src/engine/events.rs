//! Probes, and events that only the caller sees: ended waits and tests, and values from outside,
//! such as the time or random bytes. Another life would get other values, so each is an event; a
//! replay gets the recorded values. REC-4

use super::{Engine, Matched, Status};
use crate::matching::Pattern;
use crate::protocol::{Event, Protocol};
use refrain_ring::recorded::RecordedOutcome;
use refrain_ring::{Clock, Ssn};

/// Number of events between two commits, in a program that only asks for values.
const EVENTS_PER_ADVANCE: u64 = 256;
/// Maximum number of events that are not stable; at this limit such a program waits.
const UNSTABLE_MAX: u64 = 1 << 16;

impl<P: Protocol> Engine<P> {
    /// Finds a message without taking it.
    pub fn find(&self, pattern: &Pattern) -> Option<(Status, Ssn)> {
        let (_, _, index) = self.inbox.matcher.find_unexpected(pattern)?;
        let head = &self.inbox.messages[*index].head;
        Some((head.status(), head.ssn))
    }

    /// Takes a message so that no other receive gets it.
    pub fn take_matched(&mut self, pattern: &Pattern) -> Option<(Matched, Ssn)> {
        let (_, index) = self.inbox.matcher.take_unexpected(pattern)?;
        self.inbox.note_taken(index);
        let head = &self.inbox.messages[index].head;
        let status = head.status();
        Some((Matched { index, status }, head.ssn))
    }

    /// Reports a successful probe to the protocol.
    pub fn note_probe(&mut self, clock: Clock, found: &Status, ssn: Ssn) {
        self.note(Event::Probe {
            clock,
            source: found.source,
            ssn,
            tag: found.tag,
            bytes: found.bytes,
        });
    }

    /// Reports a timing-dependent completion to the protocol.
    pub fn note_completion(&mut self, clock: Clock, requests: &[Clock]) {
        self.note(Event::Completion { clock, requests });
    }

    /// As [`Engine::note_completion`], for the requests that `collect` adds.
    pub fn note_completions(&mut self, clock: Clock, collect: impl FnOnce(&Self, &mut Vec<Clock>)) {
        let mut requests = core::mem::take(&mut self.completed);
        requests.clear();
        collect(self, &mut requests);
        self.note_completion(clock, &requests);
        self.completed = requests;
    }

    /// Reports a test or probe that found nothing to the protocol.
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

    /// The number of an operation that [is recorded](Engine::is_recorded). `None`: the record is of
    /// another outcome, and the next progress fails. REC-8
    #[cold]
    pub fn recorded_number(&mut self, clock: Clock, series: u8) -> Option<i64> {
        match self.recorded_outcome(clock) {
            RecordedOutcome::Number {
                series: recorded,
                value,
            } if recorded == series => {
                self.answered(clock);
                Some(value)
            }
            other => {
                self.diverged(clock, format!("{other}, and asks for number {series} now"));
                None
            }
        }
    }

    /// The bytes of an operation that [is recorded](Engine::is_recorded): `count` of them.
    /// `None`: as for [`recorded_number`](Engine::recorded_number).
    #[cold]
    pub fn recorded_bytes(&mut self, clock: Clock, count: usize) -> Option<Vec<u8>> {
        match self.recorded_outcome(clock) {
            RecordedOutcome::Bytes(bytes) if bytes.len() == count => {
                self.answered(clock);
                Some(bytes)
            }
            other => {
                self.diverged(clock, format!("{other}, and asks for {count} bytes now"));
                None
            }
        }
    }

    /// Reports a number that the operation got to the protocol.
    #[inline]
    pub fn note_number(&mut self, clock: Clock, series: u8, value: i64) {
        self.note(Event::Number {
            clock,
            series,
            value,
        });
        self.commit_at_times();
    }

    /// Reports bytes that the operation got to the protocol.
    pub fn note_bytes(&mut self, clock: Clock, bytes: &[u8]) {
        self.note(Event::Bytes { clock, bytes });
        self.commit_at_times();
    }

    /// Commits full batches even if no emission waits. GATE-2
    #[inline]
    fn commit_at_times(&mut self) {
        let unstable = self.gate.unstable();
        if unstable > 0 && unstable.is_multiple_of(EVENTS_PER_ADVANCE) {
            self.advance_protocol(self.wanted());
        }
    }

    /// Whether more events may be recorded: events that are not stable take memory. If not, the
    /// rank waits until they are stable, as for an emission.
    #[inline]
    pub fn has_room_for_events(&mut self) -> bool {
        if self.gate.unstable() < UNSTABLE_MAX {
            return true;
        }
        self.settling = self.gate.mark();
        self.advance_protocol(self.settling);
        self.gate.unstable() < UNSTABLE_MAX
    }
}
