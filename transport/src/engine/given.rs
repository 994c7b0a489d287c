//! What an operation is given from outside: the time, random bytes. Another life
//! would be given something else, so it is an event; a rank that plays its past again
//! is given what records tell. REC-4

use super::Engine;
use crate::past::Recorded;
use crate::protocol::{Event, Protocol};
use refrain_ring::Clock;

/// Events between two looks after commits, of a program that asks again and again and
/// does nothing else.
const EVENTS_PER_ADVANCE: u64 = 256;
/// Events that may be without being stable; then such a program waits.
const UNSTABLE_MAX: u64 = 1 << 16;

impl<P: Protocol> Engine<P> {
    /// The number that the operation is given which is [told](Engine::is_told).
    /// `None`: it is not what records tell, and the next progress fails. REC-8
    #[cold]
    pub fn told_number(&mut self, clock: Clock, lane: u8) -> Option<i64> {
        match self.recorded(clock) {
            Recorded::Number { lane: told, value } if told == lane => {
                self.answered(clock);
                Some(value)
            }
            other => {
                self.diverged(clock, format!("{other}, and asks for number {lane} now"));
                None
            }
        }
    }

    /// The bytes that the operation is given which is [told](Engine::is_told), as
    /// many as it asks for. `None`: as for [`told_number`](Engine::told_number).
    #[cold]
    pub fn told_bytes(&mut self, clock: Clock, count: usize) -> Option<Vec<u8>> {
        match self.recorded(clock) {
            Recorded::Bytes(bytes) if bytes.len() == count => {
                self.answered(clock);
                Some(bytes)
            }
            other => {
                self.diverged(clock, format!("{other}, and asks for {count} bytes now"));
                None
            }
        }
    }

    /// Tells the protocol of a number that the operation was given.
    #[inline]
    pub fn note_number(&mut self, clock: Clock, lane: u8, value: i64) {
        self.note(Event::Number { clock, lane, value });
        self.commit_at_times();
    }

    /// Tells the protocol of bytes that the operation was given.
    pub fn note_bytes(&mut self, clock: Clock, bytes: &[u8]) {
        self.note(Event::Bytes { clock, bytes });
        self.commit_at_times();
    }

    /// Full batches go, though no emission waits. GATE-2
    #[inline]
    fn commit_at_times(&mut self) {
        let unstable = self.gate.unstable();
        if unstable > 0 && unstable.is_multiple_of(EVENTS_PER_ADVANCE) {
            self.advance_protocol(self.wanted());
        }
    }

    /// Whether more may be given: what is not stable is memory. Else the rank waits
    /// for that, as for an emission.
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
