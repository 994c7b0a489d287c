//! What the calls of a program come to, without blocking: whoever calls counts
//! the operation ([`Engine::tick`]), makes progress, and asks here until there is
//! an answer.
//!
//! Which outcomes are events is decided here and nowhere else. A wait for one
//! request, or for all, ends the same way whatever the timing: no event. What a
//! test, a wait for some of several or a probe tells depends on timing: an event,
//! also of sends, and also of a request whose scope is over: which of several was
//! told first depends on those that were not.
//!
//! So this is also the place where a rank that plays its past again gets its
//! answers: from records instead of from what is there. REC-4. Then a call that
//! does not wait may have to: its answer is known, but what it is about has not
//! come ([`Answer::NotYet`]).

mod given;
mod handle;
mod several;
mod told;

pub use given::{bytes, number};
pub use handle::{Handle, Handles};
pub use refrain_transport::past::Answer;
pub use several::{are_null, test_all, test_any, test_some, try_all, try_any, try_some};
pub use told::awaited;

use refrain_ring::Clock;
use refrain_transport::engine::{
    Engine, EngineError, InternalOperation, Matched, Outcome, ReceiveBuffer, RequestId, SendBuffer,
    SendTo, Started, Status,
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
    let bytes = data.message_bytes();
    Ok(match engine.start_send(data, to)? {
        Started::Done(outcome) => Handle::send(engine.now(), outcome, None),
        Started::Pending(id) => Handle::send(engine.now(), sent(to, bytes), Some(id)),
    })
}

/// Begins a receive.
#[inline]
pub fn post_receive(
    engine: &mut Engine<impl Protocol>,
    room: ReceiveBuffer,
    from: Pattern,
) -> Handle {
    let id = engine.start_receive(room, from);
    Handle::receive(engine.now(), id)
}

/// Begins the receive of a message that [`take`] took.
#[inline]
pub fn post_matched(
    engine: &mut Engine<impl Protocol>,
    room: ReceiveBuffer,
    message: Matched,
) -> Handle {
    let id = engine.start_matched_receive(room, message);
    Handle::receive(engine.now(), id)
}

/// Begins an internal operation. The operation is for the executor of its steps, the
/// handle for the program. Its stream is free again when a call returns its end to the program. STREAM-2
///
/// # Errors
/// As [`Engine::begin_internal`].
pub fn begin_internal<P: Protocol>(
    engine: &mut Engine<P>,
) -> Result<(InternalOperation, Handle), EngineError> {
    let operation = engine.begin_internal()?;
    let handle = Handle::receive(engine.now(), operation.id());
    Ok((operation, handle))
}

/// Cancels a receive, unless it has matched already; it is waited for all the
/// same: an event. Of a send, a null request and one whose scope is over it does
/// nothing. One operation of the clock in any case, since whether a send is under
/// way depends on timing.
#[inline]
pub fn cancel(engine: &mut Engine<impl Protocol>, handle: &Handle) {
    match handle.id() {
        Some(id) => engine.cancel(id),
        None => drop(engine.tick()),
    }
}

/// The end of a blocking call that made this request; it is forgotten then.
#[inline(always)]
pub fn finish(engine: &mut Engine<impl Protocol>, id: RequestId) -> Option<Outcome> {
    let outcome = engine.outcome(id)?;
    end(engine, id);
    Some(outcome)
}

// Apart: a waiting rank asks at each poll, which is inlined only if it is short.
#[inline(never)]
fn end(engine: &mut Engine<impl Protocol>, id: RequestId) {
    engine.retire(id);
    engine.operation_ended();
}

/// A wait for one request: how it ended, if it has. It is null then.
#[inline]
pub fn try_wait(engine: &mut Engine<impl Protocol>, handle: &mut Handle) -> Option<Outcome> {
    let outcome = handle.outcome(engine)?;
    handle.end(engine);
    Some(outcome)
}

/// A test of one request: how it ended, if it has; it is null then. If it is told
/// nothing, the caller says that it [found nothing](found_nothing).
#[inline]
pub fn test(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handle: &mut Handle,
) -> Answer<Outcome> {
    if engine.is_told(clock) {
        return told::test(engine, clock, handle);
    }
    let Some(outcome) = handle.outcome(engine) else {
        return Answer::Nothing;
    };
    note_one(engine, clock, handle);
    handle.end(engine);
    Answer::Told(outcome)
}

/// A probe that does not wait: a message that fits, if there is one. It stays. If
/// it is told nothing, the caller says that it [found nothing](found_nothing).
#[inline]
pub fn look_now(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    from: &Pattern,
) -> Answer<Status> {
    if engine.is_told(clock) {
        return engine.told_probe(clock, from);
    }
    let Some((status, ssn)) = engine.find(from) else {
        return Answer::Nothing;
    };
    engine.note_probe(clock, &status, ssn);
    engine.operation_ended();
    Answer::Told(status)
}

/// A matched probe that does not wait: a message that fits, if there is one. Only
/// [`post_matched`] can receive it then. If it is told nothing, the caller says
/// that it [found nothing](found_nothing).
#[inline]
pub fn take_now(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    from: &Pattern,
) -> Answer<Matched> {
    if engine.is_told(clock) {
        return engine.told_take(clock, from);
    }
    let Some((matched, ssn)) = engine.take_matched(from) else {
        return Answer::Nothing;
    };
    engine.note_probe(clock, &matched.status, ssn);
    engine.operation_ended();
    Answer::Told(matched)
}

/// A probe that waits: as [`look_now`].
#[inline]
pub fn look(engine: &mut Engine<impl Protocol>, clock: Clock, from: &Pattern) -> Option<Status> {
    let answer = look_now(engine, clock, from);
    told::awaited(engine, clock, answer)
}

/// A matched probe that waits: as [`take_now`].
#[inline]
pub fn take(engine: &mut Engine<impl Protocol>, clock: Clock, from: &Pattern) -> Option<Matched> {
    let answer = take_now(engine, clock, from);
    told::awaited(engine, clock, answer)
}

/// A test or probe, not a wait, was told that there is nothing.
#[inline]
pub fn found_nothing(engine: &mut Engine<impl Protocol>, clock: Clock) {
    match engine.is_told(clock) {
        false => engine.note_nothing(clock),
        true => engine.answered(clock),
    }
}

/// How a send ends that is not complete yet.
fn sent(to: SendTo, bytes: u64) -> Outcome {
    let status = Status {
        source: to.rank,
        tag: to.tag,
        bytes,
        cancelled: false,
    };
    Outcome {
        status,
        truncated_to: None,
    }
}

/// Tells the protocol that a timing-dependent call ended this request.
#[inline]
fn note_one(engine: &mut Engine<impl Protocol>, clock: Clock, handle: &Handle) {
    let posted_at = handle.posted_at().unwrap_or_default();
    engine.note_completion(clock, &[posted_at]);
    engine.operation_ended();
}
