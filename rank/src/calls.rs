//! The calls of a program, without blocking. The caller counts the operation ([`Engine::tick`]),
//! makes progress, and repeats the call here until there is an answer.
//!
//! This module alone decides which outcomes are events. A wait for one request, or for all, ends
//! the same way with any timing: it is no event. The result of a test, a probe, or a wait for some
//! of several requests depends on timing: it is an event, also for sends, and also for a request
//! whose scope has ended, since which request ends first depends on the others.
//!
//! In a replay, calls get their answers here from records (REC-4). A call that otherwise does not
//! wait may then have to: its answer is known, but its message has not arrived
//! ([`NoAnswer::NotYet`]).

mod handle;
mod several;

pub use handle::{Handle, Handles};
pub use refrain_transport::recorded::{Answer, NoAnswer};
pub use several::{are_null, awaited, test_all, test_any, test_some, try_all, try_any, try_some};

use refrain_ring::Clock;
use refrain_transport::engine::{
    Engine, EngineError, InternalOperation, Matched, Outcome, ReceiveBuffer, SendBuffer, SendTo,
    Started, Status,
};
use refrain_transport::matching::Pattern;
use refrain_transport::protocol::Protocol;

/// Begins a send.
///
/// # Errors
/// As [`Engine::start_send`].
#[inline]
pub fn post_send(
    engine: &mut Engine<impl Protocol>,
    data: SendBuffer,
    to: SendTo,
) -> Result<Handle, EngineError> {
    let outcome = to.outcome(data.message_bytes());
    let id = match engine.start_send(data, to)? {
        Started::Done(_) => None,
        Started::Pending(id) => Some(id),
    };
    Ok(Handle::send(engine.now(), outcome, id))
}

/// Begins a receive.
#[inline]
pub fn post_receive(
    engine: &mut Engine<impl Protocol>,
    room: ReceiveBuffer,
    from: Pattern,
) -> Handle {
    post_receive_into(engine, || room, from)
}

/// As [`post_receive`], with room that is made in the place of its request.
#[inline(always)]
pub fn post_receive_into(
    engine: &mut Engine<impl Protocol>,
    room: impl FnOnce() -> ReceiveBuffer,
    from: Pattern,
) -> Handle {
    let id = engine.start_receive_into(room, from);
    Handle::receive(engine.now(), id)
}

/// Begins the receive of a message that [`take`] or [`take_now`] returned.
#[inline]
pub fn post_matched(
    engine: &mut Engine<impl Protocol>,
    room: ReceiveBuffer,
    message: Matched,
) -> Handle {
    let id = engine.start_matched_receive(room, message);
    Handle::receive(engine.now(), id)
}

/// Begins an internal operation. The operation goes to the executor of its steps, the handle to the
/// program. The operation's stream is free again when a call has returned its end to the program.
/// STREAM-2
///
/// # Errors
/// As [`Engine::begin_internal`].
pub fn begin_internal<P: Protocol>(
    engine: &mut Engine<P>,
) -> Result<(InternalOperation, Handle), EngineError> {
    let (operation, id) = engine.begin_internal()?;
    Ok((operation, Handle::receive(engine.now(), id)))
}

/// Cancels a receive that has not matched yet, which is an event. The program must still wait for
/// it. Does nothing to a send, a null request or a request whose scope has ended. It is one
/// operation of the clock in any case, since whether a send is in progress depends on timing.
#[inline]
pub fn cancel(engine: &mut Engine<impl Protocol>, handle: &Handle) {
    match handle.id() {
        Some(id) => engine.cancel(id),
        None => drop(engine.tick()),
    }
}

/// Completes a send whatever its receiver does: it continues from a copy of its data. Does nothing
/// to a receive.
pub fn complete_send(engine: &mut Engine<impl Protocol>, handle: &mut Handle) {
    if let Some(id) = handle.take_send() {
        engine.detach(id);
    }
}

/// A wait for one request: returns its outcome and makes it null, if it has ended.
#[inline]
pub fn try_wait(engine: &mut Engine<impl Protocol>, handle: &mut Handle) -> Option<Outcome> {
    let outcome = handle.outcome(engine)?;
    handle.end(engine);
    Some(outcome)
}

/// A test of one request: returns its outcome and makes it null, if it has ended. After
/// [`NoAnswer::Nothing`] the caller calls [`found_nothing`].
#[inline]
pub fn test(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handle: &mut Handle,
) -> Answer<Outcome> {
    if engine.is_recorded(clock) {
        let handles = core::slice::from_mut(handle);
        return several::recorded(engine, clock, handles, true).map(|ended| ended[0].1);
    }
    let outcome = handle.outcome(engine).ok_or(NoAnswer::Nothing)?;
    several::note_one(engine, clock, handle);
    handle.end(engine);
    Ok(outcome)
}

/// A probe that does not wait: returns the status of a message that matches, and does not take it.
/// After [`NoAnswer::Nothing`] the caller calls [`found_nothing`].
#[inline]
pub fn look_now(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    from: &Pattern,
) -> Answer<Status> {
    if engine.is_recorded(clock) {
        return engine.recorded_probe(clock, from);
    }
    let (status, ssn) = engine.find(from).ok_or(NoAnswer::Nothing)?;
    engine.note_probe(clock, &status, ssn);
    engine.operation_ended();
    Ok(status)
}

/// A matched probe that does not wait: takes a message that matches. Only [`post_matched`] can
/// receive it then. After [`NoAnswer::Nothing`] the caller calls [`found_nothing`].
#[inline]
pub fn take_now(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    from: &Pattern,
) -> Answer<Matched> {
    if engine.is_recorded(clock) {
        return engine.recorded_take(clock, from);
    }
    let (matched, ssn) = engine.take_matched(from).ok_or(NoAnswer::Nothing)?;
    engine.note_probe(clock, &matched.status, ssn);
    engine.operation_ended();
    Ok(matched)
}

/// A probe that waits; else as [`look_now`].
#[inline]
pub fn look(engine: &mut Engine<impl Protocol>, clock: Clock, from: &Pattern) -> Option<Status> {
    let answer = look_now(engine, clock, from);
    awaited(engine, clock, answer)
}

/// A matched probe that waits; else as [`take_now`].
#[inline]
pub fn take(engine: &mut Engine<impl Protocol>, clock: Clock, from: &Pattern) -> Option<Matched> {
    let answer = take_now(engine, clock, from);
    awaited(engine, clock, answer)
}

/// Ends a test or probe that does not wait and has found nothing.
#[inline]
pub fn found_nothing(engine: &mut Engine<impl Protocol>, clock: Clock) {
    match engine.is_recorded(clock) {
        false => engine.note_nothing(clock),
        true => engine.answered(clock),
    }
}

/// Records the number `fresh` from outside and returns it; in a replay, returns the recorded
/// number. `series`: from 0 to 15. `None`: the records contain something else, and the next
/// progress fails. An event. REC-4, REC-8
#[inline]
pub fn number(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    series: u8,
    fresh: i64,
) -> Option<i64> {
    if engine.is_recorded(clock) {
        return engine.recorded_number(clock, series);
    }
    engine.note_number(clock, series, fresh);
    Some(fresh)
}

/// As [`number`], for 1 to 256 bytes: in a replay, the recorded bytes replace `fresh`. Returns
/// false if the record does not have this number of bytes.
#[must_use]
pub fn bytes(engine: &mut Engine<impl Protocol>, clock: Clock, fresh: &mut [u8]) -> bool {
    if engine.is_recorded(clock) {
        let recorded = engine.recorded_bytes(clock, fresh.len());
        if let Some(recorded) = &recorded {
            fresh.copy_from_slice(recorded);
        }
        return recorded.is_some();
    }
    engine.note_bytes(clock, fresh);
    true
}
