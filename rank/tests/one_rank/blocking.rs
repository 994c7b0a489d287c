//! Calls on one request, and probes.

use crate::empty::{receive_buffer, send_buffer};
use crate::pair::{Pair, Saw, from, to};
use refrain_rank::calls::{self, NoAnswer};
use refrain_transport::engine::SendTo;

/// A wait is no event; a test is one, with any result.
#[test]
fn a_test_is_an_event_and_a_wait_is_none() {
    let mut pair = Pair::new();
    let mut handle = pair.receive(1);
    let posted_at = handle.posted_at().expect("it is there");
    let clock = pair.rank.tick();
    assert_eq!(
        calls::test(&mut pair.rank, clock, &mut handle),
        Err(NoAnswer::Nothing)
    );
    calls::found_nothing(&mut pair.rank, clock);
    assert_eq!(pair.seen(), [Saw::Nothing(clock)]);
    pair.send(1);
    pair.settle();
    let clock = pair.rank.tick();
    assert!(
        calls::test(&mut pair.rank, clock, &mut handle)
            .ok()
            .is_some()
    );
    assert_eq!(pair.seen(), [Saw::Completion(clock, vec![posted_at])]);
    let mut handle = pair.receive(2);
    assert_eq!(calls::try_wait(&mut pair.rank, &mut handle), None);
    pair.send(2);
    pair.settle();
    assert!(calls::try_wait(&mut pair.rank, &mut handle).is_some());
    assert!(handle.is_null());
    let blocking = pair.receive(3).id().expect("it is under way");
    pair.send(3);
    pair.settle();
    assert!(pair.rank.finish(blocking).is_some());
    assert_eq!(pair.seen(), []);
    assert_eq!(pair.rank.request_count(), 0);
}

/// A receive that the engine has forgotten is complete, without a message. A test of it is an event
/// like others, with its own id.
#[test]
fn a_receive_of_a_scope_that_is_over_ends_without_a_message() {
    let mut pair = Pair::new();
    let mut stale = pair.receive(1);
    let posted_at = stale.posted_at().expect("it is there");
    pair.rank.detach(stale.id().expect("it is under way"));
    // The receive was cancelled with its scope.
    pair.seen();
    let clock = pair.rank.tick();
    let end = calls::test(&mut pair.rank, clock, &mut stale).expect("it is over");
    assert!(end.status.cancelled);
    assert!(stale.is_null());
    assert_eq!(pair.seen(), [Saw::Completion(clock, vec![posted_at])]);
}

/// A receive that is cancelled in time ends without a message, otherwise with it; both are events.
/// A request whose end was returned is not cancelled.
#[test]
fn a_cancel_is_an_event_either_way() {
    let mut pair = Pair::new();
    for comes_first in [false, true] {
        let mut handle = pair.receive(1);
        let posted_at = handle.posted_at().expect("it is there");
        if comes_first {
            pair.send(1);
            pair.settle();
        }
        calls::cancel(&mut pair.rank, &handle);
        let clock = pair.rank.now();
        assert_eq!(clock.0, posted_at.0 + 1);
        let expected = match comes_first {
            false => Saw::Cancelled(clock, posted_at),
            true => Saw::Nothing(clock),
        };
        assert_eq!(pair.seen(), [expected]);
        let end = calls::try_wait(&mut pair.rank, &mut handle).expect("it has ended");
        assert_eq!(end.status.cancelled, !comes_first);
        calls::cancel(&mut pair.rank, &handle);
        assert_eq!(pair.rank.now().0, clock.0 + 1, "an operation all the same");
    }
    assert_eq!(pair.seen(), []);
}

/// To cancel a send, in progress or not, is one operation and no event. To detach it with its scope
/// is no operation: the clock does not depend on the room in the log.
#[test]
fn a_cancel_of_a_send_counts_the_same_whether_it_is_under_way() {
    let mut pair = Pair::new();
    for synchronous in [false, true] {
        let to = SendTo {
            synchronous,
            ..to(0, 1)
        };
        let handle = calls::post_send(&mut pair.rank, send_buffer(), to);
        let handle = handle.expect("there is room");
        assert_eq!(handle.id().is_some(), synchronous);
        let posted_at = handle.posted_at().expect("it is there");
        calls::cancel(&mut pair.rank, &handle);
        assert_eq!(pair.rank.now().0, posted_at.0 + 1);
        if let Some(id) = handle.id() {
            pair.rank.detach(id);
        }
        assert_eq!(pair.rank.now().0, posted_at.0 + 1);
    }
    assert_eq!(pair.seen(), []);
}

/// A probe that finds a message is an event, whether or not it takes the message; the receive of a
/// taken message is none.
#[test]
fn a_probe_is_an_event_and_what_it_took_is_received_without_one() {
    let mut pair = Pair::new();
    let clock = pair.rank.tick();
    assert_eq!(calls::look(&mut pair.rank, clock, &from(1)), None);
    assert!(calls::take(&mut pair.rank, clock, &from(1)).is_none());
    assert_eq!(pair.seen(), [], "the caller says whether it asks again");
    pair.send(1);
    pair.settle();
    let clock = pair.rank.tick();
    assert!(calls::look(&mut pair.rank, clock, &from(1)).is_some());
    assert_eq!(pair.seen(), [Saw::Probe(clock)]);
    let clock = pair.rank.tick();
    let taken = calls::take(&mut pair.rank, clock, &from(1)).expect("it was left");
    assert_eq!(pair.seen(), [Saw::Probe(clock)]);
    assert_eq!(calls::look(&mut pair.rank, clock, &from(1)), None);
    let mut handle = calls::post_matched(&mut pair.rank, receive_buffer(), taken);
    assert!(calls::try_wait(&mut pair.rank, &mut handle).is_some());
    assert_eq!(pair.seen(), []);
}
