//! What a kept log may free, and when.

use crate::memory::receive_buffer;
use crate::networks;
use crate::rig::{Rig, Setup, from, from_any, payload, to};
use refrain_ring::{CHUNK_BYTES, Rank, Ssn};
use refrain_transport::engine::{Matched, Stall};
use refrain_transport::fabric::sim::Options;

const LOG_BYTES: usize = 2 << 20;
const MESSAGE_BYTES: usize = 20_000;

fn rig(network: Options) -> Rig {
    Setup::new(network).ranks(3).keeping(LOG_BYTES).build()
}

fn exchange(rig: &mut Rig, count: u64) {
    for message in 0..count {
        let receipt = rig.receive(1, from(0, 1), MESSAGE_BYTES);
        let data = payload(message, MESSAGE_BYTES);
        let sent = rig.send(0, to(1, 1), &data);
        rig.finish_send(&sent);
        assert!(rig.finish_receive(&receipt).1 == data);
    }
    rig.settle();
}

/// Number of chunks that rank 0 holds when it has freed all that it may.
fn chunks_held(rig: &mut Rig) -> u64 {
    rig.settle();
    rig.engines[0].trim();
    rig.engines[0].log_bytes().0 / CHUNK_BYTES as u64
}

/// Received messages are kept; only a horizon frees them.
// LOG-4
#[test]
fn only_a_horizon_frees_what_was_received() {
    for network in networks::all() {
        let mut rig = rig(network);
        exchange(&mut rig, 60);
        assert_eq!(chunks_held(&mut rig), 5);
        rig.engines[1].publish_horizon();
        assert_eq!(chunks_held(&mut rig), 1, "the one being filled");
        rig.end();
    }
}

/// A checkpoint takes time to become stable: messages that are delivered meanwhile, and only those,
/// are kept when it is published.
// LOG-4
// GC-1
#[test]
fn a_checkpoint_frees_what_was_delivered_when_it_was_taken() {
    for network in networks::all() {
        let mut rig = rig(network);
        exchange(&mut rig, 60);
        let taken = rig.engines[1].horizon();
        assert_eq!(taken.delivered(Rank(0)), Ssn(60));
        assert_eq!(taken.clock(), rig.engines[1].now());
        exchange(&mut rig, 30);
        assert_eq!(rig.engines[0].log_begins(Rank(1)), Ssn(0));
        rig.engines[1].publish(&taken);
        chunks_held(&mut rig);
        assert_eq!(rig.engines[0].log_horizon(Rank(1)), Ssn(60));
        let begins = rig.engines[0].log_begins(Rank(1));
        // Chunks are freed whole; the last chunk that the checkpoint covers holds later messages,
        // too.
        assert!((Ssn(40)..=Ssn(60)).contains(&begins), "{begins:?}");
        assert_eq!(rig.protocols[1].published(), [taken.clock()]);
        rig.engines[1].publish_horizon();
        assert_eq!(chunks_held(&mut rig), 1, "the one being filled");
        rig.end();
    }
}

/// Checkpoints become stable in another order than they were taken: the older one changes nothing.
// GC-1
#[test]
fn an_older_checkpoint_changes_nothing() {
    let mut rig = rig(networks::calm());
    exchange(&mut rig, 20);
    let older = rig.engines[1].horizon();
    exchange(&mut rig, 20);
    let newer = rig.engines[1].horizon();
    rig.engines[1].publish(&newer);
    rig.settle();
    rig.engines[1].publish(&older);
    rig.settle();
    assert_eq!(rig.engines[0].log_horizon(Rank(1)), Ssn(40));
    assert_eq!(rig.protocols[1].published(), [newer.clock()]);
    rig.end();
}

/// The message of a receive whose end the program has not seen is requested again: the checkpoint's
/// clock lies before that receive.
// LOG-4
#[test]
fn the_clock_does_not_pass_a_receive_that_was_not_told() {
    let mut rig = rig(networks::calm());
    exchange(&mut rig, 3);
    let before = rig.engines[1].now();
    let receipt = rig.receive(1, from_any(1), 8);
    rig.send(0, to(1, 1), &[1; 8]);
    rig.settle();
    rig.engines[1].tick();
    assert!(rig.is_received(&receipt));
    assert_eq!(rig.engines[1].horizon().clock(), before);
    rig.finish_receive(&receipt);
    assert_eq!(rig.engines[1].horizon().clock(), rig.engines[1].now());
    rig.end();
}

/// How a message was received, but not delivered.
#[derive(Clone, Copy, Debug)]
enum Undelivered {
    Unexpected,
    Probed,
    MatchedProbe,
    HalfArrived,
    HalfArrivedUnexpected,
}

/// A horizon does not pass a message that was received but not delivered to the program, nor later
/// messages.
// LOG-4
#[test]
fn the_horizon_does_not_pass_what_is_not_delivered() {
    use Undelivered::*;
    for network in networks::all() {
        for how in [
            Unexpected,
            Probed,
            MatchedProbe,
            HalfArrived,
            HalfArrivedUnexpected,
        ] {
            println!("{how:?}");
            let mut rig = rig(network.clone());
            check_not_passed(&mut rig, how);
            rig.end();
        }
    }
}

fn check_not_passed(rig: &mut Rig, how: Undelivered) {
    // Longer than a burst: half of it is in the log when the call returns.
    let data = payload(77, 400_000);
    let early = matches!(how, Undelivered::HalfArrived);
    let early = early.then(|| rig.receive(1, from(0, 7), data.len()));
    let sent = rig.send(0, to(1, 7), &data);
    let half = matches!(
        how,
        Undelivered::HalfArrived | Undelivered::HalfArrivedUnexpected
    );
    if half {
        match &early {
            Some(receipt) => rig.until_touched(receipt),
            None => rig.until_found(1, from(0, 7)),
        }
        rig.engines[1].publish_horizon();
    }
    exchange(rig, 40);
    rig.finish_send(&sent);
    // All of 400 kB and 40 times 20 kB, in chunks of 256 KiB.
    assert_eq!(chunks_held(rig), 5, "the horizon passed it");
    let matched = prepare(rig, how);
    if !half {
        rig.engines[1].publish_horizon();
    }
    assert_eq!(chunks_held(rig), 5, "the horizon passed it");
    match (early, matched) {
        (Some(receipt), _) => assert!(rig.finish_receive(&receipt).1 == data),
        (_, Some(matched)) => {
            let room = rig.room(&vec![0; data.len()]);
            let buffer = receive_buffer(&room, data.len());
            let id = rig.engines[1].start_matched_receive(buffer, matched);
            rig.until("all of it is there", |rig| {
                rig.engines[1].outcome(id).is_some()
            });
            rig.engines[1].retire(id);
            assert!(room.read() == data);
        }
        _ => {
            rig.expect(1, from(0, 7), &data);
        }
    }
    rig.engines[1].publish_horizon();
    assert_eq!(chunks_held(rig), 1);
}

fn prepare(rig: &mut Rig, how: Undelivered) -> Option<Matched> {
    match how {
        Undelivered::Probed => {
            assert!(rig.engines[1].find(&from_any(7)).is_some());
            None
        }
        Undelivered::MatchedProbe => {
            let taken = rig.engines[1].take_matched(&from_any(7));
            Some(taken.expect("it is there").0)
        }
        _ => None,
    }
}

/// A full log stops its sender, and the stall is reported. The waiting sends continue when a
/// horizon is published; nothing is lost, and horizons of other ranks do not help.
// LOG-3
// LOG-4
#[test]
fn a_full_log_waits_for_a_horizon() {
    for network in networks::all() {
        let mut rig = rig(network);
        let count = 2 * LOG_BYTES / MESSAGE_BYTES;
        let receipts: Vec<_> = (0..count)
            .map(|_| rig.receive(1, from(0, 1), MESSAGE_BYTES))
            .collect();
        let sends: Vec<_> = (0..count)
            .map(|message| rig.send(0, to(1, 1), &payload(message as u64, MESSAGE_BYTES)))
            .collect();
        for _ in 0..4 {
            rig.settle();
            rig.engines[2].publish_horizon();
        }
        assert_eq!(rig.engines[0].stall(), Some(Stall::Share));
        let sent = |rig: &Rig| sends.iter().filter(|sent| rig.is_sent(sent)).count();
        assert!(sent(&rig) < count * 2 / 3);
        assert!(receipts.iter().any(|receipt| !rig.is_received(receipt)));
        while sent(&rig) < count {
            let before = sent(&rig);
            rig.engines[1].publish_horizon();
            rig.settle();
            assert!(sent(&rig) > before, "the horizon freed nothing");
        }
        rig.settle();
        assert_eq!(rig.engines[0].stall(), None);
        for (message, receipt) in receipts.iter().enumerate() {
            let (_, found) = rig.finish_receive(receipt);
            assert!(found == payload(message as u64, MESSAGE_BYTES));
        }
        for sent in &sends {
            rig.finish_send(sent);
        }
        rig.end();
    }
}

/// If the log, not the channel's window, is full, the stall names it.
// LOG-3
#[test]
fn a_full_budget_is_named() {
    let mut rig = rig(networks::calm());
    for rank in [1, 2] {
        for message in 0..80 {
            rig.send(0, to(rank, 1), &payload(message, MESSAGE_BYTES));
        }
    }
    rig.settle();
    assert_eq!(rig.engines[0].stall(), Some(Stall::Budget));
    let (used, budget) = rig.engines[0].log_bytes();
    assert_eq!((used, budget), (LOG_BYTES as u64, LOG_BYTES as u64));
}
