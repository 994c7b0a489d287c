//! Values from outside.

use crate::empty::send_buffer;
use crate::pair::{Pair, Saw, to};
use refrain_rank::calls;

fn ask(pair: &mut Pair, fresh: i64) {
    let clock = pair.rank.tick();
    let number = calls::number(&mut pair.rank, clock, 0, fresh);
    assert_eq!(number, Some(fresh));
}

/// A value is an event that commits nothing by itself; the next send waits for it.
// GATE-1, GATE-2
#[test]
fn a_number_is_an_event_that_a_send_waits_for() {
    let mut pair = Pair::new();
    pair.ledger().is_held = true;
    ask(&mut pair, 7);
    let clock = pair.rank.tick();
    let mut bytes = *b"seed";
    assert!(calls::bytes(&mut pair.rank, clock, &mut bytes));
    assert_eq!(&bytes, b"seed");
    let number = Saw::Number(refrain_ring::Clock(1), 0, 7);
    assert_eq!(pair.seen(), [number, Saw::Bytes(clock, b"seed".to_vec())]);
    assert_eq!(
        pair.events().counts().batches.iter().sum::<u64>(),
        0,
        "no commit"
    );
    assert!(!pair.rank.awaits_commit());

    let sent = calls::post_send(&mut pair.rank, send_buffer(), to(0, 1));
    sent.expect("there is room");
    assert_eq!(
        pair.events().counts().batches.iter().sum::<u64>(),
        1,
        "both in one"
    );
    pair.settle();
    assert!(pair.rank.awaits_commit());
    let first = refrain_ring::Rank(1);
    assert_eq!(pair.peer.first_missing(first).0, 0, "it is held back");
    pair.ledger().is_held = false;
    pair.settle();
    assert_eq!(pair.peer.first_missing(first).0, 1);
}

/// A program that only asks for values takes little memory, and does not wait while the loggers
/// keep up.
// GATE-2
#[test]
fn a_program_that_only_asks_commits_full_batches() {
    let mut pair = Pair::new();
    for number in 0..100_000 {
        assert!(pair.rank.has_room_for_events());
        ask(&mut pair, number);
        let (recorded, stable) = pair.progress();
        assert!(recorded - stable <= 1024, "{recorded}, {stable}");
    }
    let counts = pair.events().counts();
    assert!(
        (100..400).contains(&counts.batches.iter().sum::<u64>()),
        "{counts:?}"
    );
}

/// Events that loggers have not confirmed take memory, which is limited.
// GATE-2
#[test]
fn a_program_that_only_asks_waits_for_loggers_that_are_behind() {
    let mut pair = Pair::new();
    pair.ledger().is_held = true;
    let mut asked = 0;
    while pair.rank.has_room_for_events() {
        ask(&mut pair, asked);
        asked += 1;
        assert!(asked <= 1 << 16, "memory grows");
    }
    assert_eq!(asked, 1 << 16);
    assert!(pair.rank.awaits_commit(), "as an emission does");
    pair.settle();
    assert!(!pair.rank.has_room_for_events());
    pair.ledger().is_held = false;
    assert!(pair.rank.has_room_for_events());
}
