//! Where a rank's events become stable, and when they need not be kept any more.

use crate::empty::{receive_buffer, send_buffer};
use crate::pair::{Pair, Saw, to};
use refrain_rank::calls;
use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::matching::Pattern;
use refrain_transport::protocol::Protocol;

fn receive_from_any(pair: &mut Pair) {
    let anything = Pattern {
        context: 0,
        source: None,
        tag: None,
    };
    let handle = calls::post_receive(&mut pair.rank, receive_buffer(), anything);
    pair.send(1);
    pair.settle();
    let id = handle.id().expect("it is under way");
    pair.rank.finish(id).expect("its message is there");
}

/// A send leaves when the events before it are stable, and not earlier; the reason for its wait is
/// reported.
// GATE-1
#[test]
fn a_send_waits_for_the_events_before_it() {
    let mut pair = Pair::new();
    pair.ledger().is_held = true;
    receive_from_any(&mut pair);
    assert!(matches!(pair.seen()[..], [Saw::Match(_)]));
    let sent = calls::post_send(&mut pair.rank, send_buffer(), to(0, 1));
    sent.expect("there is room");
    pair.settle();
    assert!(pair.rank.awaits_commit());
    let why = pair.rank.explain_gate();
    assert_eq!(why.as_deref(), Some("held by the test"));
    assert_eq!(pair.progress(), (1, 0));
    pair.ledger().is_held = false;
    pair.settle();
    assert!(!pair.rank.has_unposted());
    assert_eq!(pair.progress(), (1, 1));
    assert_eq!(pair.events().counts().matches, 1);
}

/// A rank that answers each message has prepared the next commit before the message arrives, once
/// the exchange is regular. It prepares the commit while nothing arrives.
#[test]
fn who_waits_makes_the_next_commit_ready() {
    let mut pair = Pair::new();
    for _ in 0..10 {
        receive_from_any(&mut pair);
        let sent = calls::post_send(&mut pair.rank, send_buffer(), to(0, 1));
        sent.expect("there is room");
        pair.settle();
    }
    assert_eq!(pair.progress(), (10, 10));
    assert_eq!(pair.events().commits().foreseen, 8);
}

/// Events that output waits for are committed without a send, and reported when they are stable.
// GATE-1
#[test]
fn what_a_watch_waits_for_is_committed() {
    let mut pair = Pair::new();
    receive_from_any(&mut pair);
    pair.settle();
    assert_eq!(pair.progress(), (1, 0), "nothing waits");
    pair.output().wanted = 1;
    pair.settle();
    assert_eq!(pair.output().told_stable, 1);
}

/// The determinants of two generations of checkpoints are kept: when a checkpoint is published,
/// determinants before the previous one are trimmed.
// GC-1
#[test]
fn two_generations_of_determinants_are_kept() {
    let mut pair = Pair::new();
    let mut clocks = vec![Clock(0)];
    for _ in 0..3 {
        receive_from_any(&mut pair);
        let taken = pair.rank.horizon();
        // Events before the checkpoint is stable are not covered.
        receive_from_any(&mut pair);
        pair.rank.publish(&taken);
        clocks.push(taken.clock());
    }
    pair.settle();
    assert_eq!(
        pair.events().commits().trims[..],
        clocks[..3],
        "each time what lies before the last but one"
    );
    assert_eq!(
        pair.peer.log_horizon(Rank(1)),
        Ssn(5),
        "LOG-4: not the sixth"
    );
}

/// Loggers take trimmed events for stable. They are stable before they are trimmed, although no
/// send waits for them.
// GC-1, EL-5
#[test]
fn nothing_is_given_up_before_it_is_stable() {
    let mut pair = Pair::new();
    pair.ledger().is_held = true;
    for _ in 0..3 {
        receive_from_any(&mut pair);
        pair.rank.publish_horizon();
        pair.settle();
    }
    assert_eq!(pair.events().commits().trims, []);
    pair.ledger().is_held = false;
    pair.settle();
    assert_eq!(pair.progress(), (3, 3));
    assert_eq!(pair.events().commits().trims.len(), 3);
}

/// A rank leaves when all its events are stable and the loggers know it.
#[test]
fn a_rank_leaves_when_everything_is_stable() {
    let mut pair = Pair::new();
    pair.ledger().is_held = true;
    receive_from_any(&mut pair);
    assert!(!pair.rank.protocol_mut().leave());
    assert_eq!(pair.events().commits().leaves, 0);
    pair.ledger().is_held = false;
    assert!(
        !pair.rank.protocol_mut().leave(),
        "loggers have not answered"
    );
    assert!(pair.rank.protocol_mut().leave());
    assert!(pair.peer.protocol_mut().leave(), "nobody to tell");
}
