//! Calls that are given something from outside: the time, random bytes. An event
//! each. REC-4

use refrain_ring::Clock;
use refrain_transport::engine::Engine;
use refrain_transport::protocol::Protocol;

/// The number that the operation is given: `fresh`, or in a rank that plays its past
/// again what the first life was given. `lane`: what it asks for, from 0 to 15. `None`:
/// that is not what the first life asked for, and the next progress fails. REC-8
#[inline]
pub fn number(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    lane: u8,
    fresh: i64,
) -> Option<i64> {
    if engine.is_told(clock) {
        return engine.told_number(clock, lane);
    }
    engine.note_number(clock, lane, fresh);
    Some(fresh)
}

/// The same for 1 to 256 bytes: they are left as they are, or replaced. Whether the
/// first life asked for as many.
#[must_use]
pub fn bytes(engine: &mut Engine<impl Protocol>, clock: Clock, fresh: &mut [u8]) -> bool {
    if engine.is_told(clock) {
        let told = engine.told_bytes(clock, fresh.len());
        if let Some(told) = &told {
            fresh.copy_from_slice(told);
        }
        return told.is_some();
    }
    engine.note_bytes(clock, fresh);
    true
}
