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
//! So this is also the place where a rank that plays its past again will get its
//! answers: from records instead of from what is there.

mod handle;
mod several;

pub use handle::{Handle, Handles};
pub use several::{are_null, test_all, try_all, try_any, try_some};

use refrain_ring::Clock;
use refrain_transport::engine::{
    Engine, EngineError, Matched, Outcome, ReceiveBuffer, RequestId, SendBuffer, SendTo, Started,
    Status,
};
use refrain_transport::matching::Pattern;

/// Begins a send.
///
/// # Errors
/// As [`Engine::start_send`].
#[inline]
pub fn post_send(engine: &mut Engine, data: SendBuffer, to: SendTo) -> Result<Handle, EngineError> {
    let bytes = data.message_bytes();
    Ok(match engine.start_send(data, to)? {
        Started::Done(outcome) => Handle::send(engine.now(), outcome, None),
        Started::Pending(id) => Handle::send(engine.now(), sent(to, bytes), Some(id)),
    })
}

/// Begins a receive.
#[inline]
pub fn post_receive(engine: &mut Engine, room: ReceiveBuffer, from: Pattern) -> Handle {
    let id = engine.start_receive(room, from);
    Handle::receive(engine.now(), id)
}

/// Begins the receive of a message that [`take`] took.
#[inline]
pub fn post_matched(engine: &mut Engine, room: ReceiveBuffer, message: Matched) -> Handle {
    let id = engine.start_matched_receive(room, message);
    Handle::receive(engine.now(), id)
}

/// Cancels a receive, unless it has matched already; it is waited for all the
/// same: an event. Of a send, a null request and one whose scope is over it does
/// nothing. One operation of the clock in any case, since whether a send is under
/// way depends on timing.
#[inline]
pub fn cancel(engine: &mut Engine, handle: &Handle) {
    match handle.id() {
        Some(id) => engine.cancel(id),
        None => drop(engine.tick()),
    }
}

/// The end of a blocking call that made this request; it is forgotten then.
#[inline]
pub fn finish(engine: &mut Engine, id: RequestId) -> Option<Outcome> {
    let outcome = engine.outcome(id)?;
    engine.retire(id);
    engine.operation_ended();
    Some(outcome)
}

/// A wait for one request: how it ended, if it has. It is null then.
#[inline]
pub fn try_wait(engine: &mut Engine, handle: &mut Handle) -> Option<Outcome> {
    let outcome = handle.outcome(engine)?;
    handle.end(engine);
    Some(outcome)
}

/// A test of one request: how it ended, if it has; it is null then. If it has
/// not, the caller says that it [found nothing](found_nothing).
#[inline]
pub fn test(engine: &mut Engine, clock: Clock, handle: &mut Handle) -> Option<Outcome> {
    let outcome = handle.outcome(engine)?;
    note_one(engine, clock, handle);
    handle.end(engine);
    Some(outcome)
}

/// A probe: a message that fits, if there is one. It stays.
#[inline]
pub fn look(engine: &mut Engine, clock: Clock, from: &Pattern) -> Option<Status> {
    let (status, ssn) = engine.find(from)?;
    engine.note_probe(clock, &status, ssn);
    engine.operation_ended();
    Some(status)
}

/// A matched probe: a message that fits, if there is one. Only
/// [`post_matched`] can receive it then.
#[inline]
pub fn take(engine: &mut Engine, clock: Clock, from: &Pattern) -> Option<Matched> {
    let (matched, ssn) = engine.take_matched(from)?;
    engine.note_probe(clock, &matched.status, ssn);
    engine.operation_ended();
    Some(matched)
}

/// A test or probe, not a wait, was told that there is nothing.
#[inline]
pub fn found_nothing(engine: &mut Engine, clock: Clock) {
    engine.note_nothing(clock);
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
fn note_one(engine: &mut Engine, clock: Clock, handle: &Handle) {
    let posted_at = handle.posted_at().unwrap_or_default();
    engine.note_completion(clock, &[posted_at]);
    engine.operation_ended();
}
