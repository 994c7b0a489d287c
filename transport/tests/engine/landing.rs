//! Distant frames: payload that the receiver's engine fetches.

use crate::memory::{receive_buffer, receive_layout};
use crate::networks;
use crate::recorder::Noted;
use crate::rig::{Receipt, Rig, Setup, UNTOUCHED, from, from_any, payload, synchronous, to};
use refrain_transport::fabric::sim::{Event, LaneKind, Options};
use refrain_transport::layout::Layout;
use std::sync::Arc;

/// Frames are distant from 1000 bytes on, in a network in which a landing takes some time.
fn slow(seed: u64) -> Options {
    let mut options = Options::calm(seed).distant_from(1000);
    options.faults.delay_ticks_max = 50;
    options.keeps_trace = true;
    options
}

/// Waits until rank 1 has this many frames, and nothing that it fetches has landed.
fn until_fetching(rig: &mut Rig, frames: usize) {
    rig.until("the frames are handed over", |rig| rig.handed(1) == frames);
    assert_eq!(rig.landed(), 0, "choose another seed");
}

/// Lets all fetched payload land, without progress of rank 1.
fn land_without_progress(rig: &mut Rig) {
    while rig.network.step() {
        rig.progress(0);
    }
}

/// Posts a receive of rank 1 into a part of a room.
type Lend = fn(&mut Rig) -> Receipt;
/// The content of that room after it has got a message.
type Filled = fn(&[u8]) -> Vec<u8>;

fn whole(rig: &mut Rig) -> Receipt {
    rig.receive(1, from(0, 1), 8000)
}

fn contiguous_layout(rig: &mut Rig) -> Receipt {
    let layout = Arc::new(Layout::indexed(&[(16, 8000)]).expect("small"));
    let room = rig.room(&[UNTOUCHED; 8016]);
    let buffer = receive_layout(&room, &layout);
    rig.receive_into(1, from(0, 1), room, buffer)
}

fn vector_layout(rig: &mut Rig) -> Receipt {
    let layout = Arc::new(Layout::vector(80, 100, 101).expect("small"));
    let room = rig.room(&[UNTOUCHED; 8079]);
    let buffer = receive_layout(&room, &layout);
    rig.receive_into(1, from(0, 1), room, buffer)
}

fn short(rig: &mut Rig) -> Receipt {
    let room = rig.room(&[UNTOUCHED; 8000]);
    let buffer = receive_buffer(&room, 7999);
    rig.receive_into(1, from(0, 1), room, buffer)
}

/// A payload goes straight into the receive's buffer if the buffer has contiguous room for it;
/// otherwise the buffer stays untouched until all of the payload has arrived.
#[test]
fn payload_lands_in_the_buffer_where_it_fits() {
    let cases: [(Lend, Filled, bool); 4] = [
        (whole, <[u8]>::to_vec, true),
        (
            contiguous_layout,
            |data| [&[UNTOUCHED; 16], data].concat(),
            true,
        ),
        (
            vector_layout,
            |data| data.chunks(100).collect::<Vec<_>>().join(&UNTOUCHED),
            false,
        ),
        (short, |data| [&data[..7999], &[UNTOUCHED]].concat(), false),
    ];
    for (lend, filled, direct) in cases {
        for keeping in [false, true] {
            for matched_late in [false, true] {
                let mut setup = Setup::new(slow(1));
                if keeping {
                    setup = setup.keeping(4 << 20);
                }
                let mut rig = setup.build();
                let early = (!matched_late).then(|| lend(&mut rig));
                rig.send(0, to(1, 1), &payload(1, 8000));
                until_fetching(&mut rig, 1);
                let receipt = early.unwrap_or_else(|| lend(&mut rig));
                land_without_progress(&mut rig);
                assert_eq!(rig.landed(), 1);
                // Fetched before it was matched, it lands in staging memory.
                let direct = direct && (!matched_late || keeping);
                let touched = receipt.room.read().iter().any(|byte| *byte != UNTOUCHED);
                assert_eq!(touched, direct);
                assert!(
                    !rig.is_received(&receipt),
                    "it is over before its landing is"
                );
                let (_, found) = rig.finish_receive(&receipt);
                assert!(found == filled(&payload(1, 8000)));
                rig.end();
            }
        }
    }
}

fn check(rig: &mut Rig, when: When) {
    let bytes = [8000, 30_000, 100_000];
    let post = |rig: &mut Rig| bytes.map(|bytes| rig.receive(1, from(0, 1), bytes));
    let early = (when == When::Before).then(|| post(rig));
    let sends: Vec<_> = (0..)
        .zip(bytes)
        .map(|(number, bytes)| rig.send(0, to(1, 1), &payload(number, bytes)))
        .collect();
    match when {
        When::Before => {}
        When::While => {
            rig.until("a frame is handed over", |rig| rig.handed(1) > 0);
        }
        When::After => rig.settle(),
    }
    let receipts = early.unwrap_or_else(|| post(rig));
    for (receipt, number) in receipts.iter().zip(0..) {
        let (outcome, found) = rig.finish_receive(receipt);
        let data = payload(number, bytes[number as usize]);
        assert_eq!(outcome.truncated_to, None);
        assert!(found == data);
    }
    sends.iter().for_each(|sent| {
        rig.finish_send(sent);
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    While,
    After,
}

/// A message is whole whether it is matched before it is fetched, while it lands, or afterwards.
#[test]
fn a_message_may_be_matched_at_any_moment() {
    for network in networks::distant() {
        let reused = Setup::new(network);
        for setup in [reused.clone(), reused.keeping(4 << 20)] {
            for when in [When::Before, When::While, When::After] {
                println!("{when:?}");
                let mut rig = setup.clone().build();
                check(&mut rig, when);
                rig.end();
            }
        }
    }
}

/// Unexpected messages stay in a log that keeps them anyway, until they are needed; out of a log
/// whose memory is reused they are fetched at once.
#[test]
fn only_a_kept_log_holds_what_is_unexpected() {
    for network in networks::distant() {
        let reused = Setup::new(network);
        for (setup, landed) in [(reused.clone(), 3), (reused.keeping(4 << 20), 0)] {
            let mut rig = setup.build();
            rig.send(0, to(1, 1), &payload(1, 20_000));
            rig.settle();
            // Its three fragments of 8192 bytes at most.
            let lands = rig.landed();
            assert!(lands == landed || lands + 1 == landed, "{lands} landed");
            assert_eq!(rig.has_released(0), landed > 0);
            rig.expect(1, from(0, 1), &payload(1, 20_000));
            rig.settle();
            assert!(rig.landed() >= 2 && rig.has_released(0));
            rig.end();
        }
    }
}

/// Fragments of which no byte fits are not fetched, whether matched before or after.
#[test]
fn what_does_not_fit_is_not_fetched() {
    for expected in [true, false] {
        let setup = Setup::new(slow(1)).keeping(4 << 20);
        let mut rig = setup.build();
        let post = |rig: &mut Rig| rig.receive(1, from(0, 1), 10_000);
        let early = expected.then(|| post(&mut rig));
        let sent = rig.send(0, to(1, 1), &payload(1, 100_000));
        rig.until("all is sent", |rig| rig.is_sent(&sent));
        rig.settle();
        let receipt = early.unwrap_or_else(|| post(&mut rig));
        let (outcome, found) = rig.finish_receive(&receipt);
        assert_eq!(outcome.truncated_to, Some(10_000));
        assert!(found == payload(1, 100_000)[..10_000]);
        assert_eq!(
            rig.landed(),
            2,
            "of 13 fragments two have something in room"
        );
        rig.finish_send(&sent);
        rig.end();
    }
}

/// A horizon does not pass a message that has not landed, though all its frames have arrived and
/// its receive was posted.
// LOG-4
#[test]
fn the_horizon_waits_for_the_landing() {
    for lend in [whole as Lend, vector_layout] {
        for matched_late in [false, true] {
            let mut rig = Setup::new(slow(1)).keeping(4 << 20).build();
            let early = (!matched_late).then(|| lend(&mut rig));
            rig.send(0, to(1, 1), &payload(1, 8000));
            until_fetching(&mut rig, 1);
            let receipt = early.unwrap_or_else(|| lend(&mut rig));
            rig.engines[1].publish_horizon();
            rig.progress(1);
            assert_eq!(rig.posted(1, LaneKind::Control), 0, "the horizon passed it");
            rig.finish_receive(&receipt);
            rig.engines[1].publish_horizon();
            rig.settle();
            assert_eq!(rig.posted(1, LaneKind::Control), 1);
            rig.end();
        }
    }
}

/// The match of a wildcard is an event, and closes the gate, when the match is made: not when its
/// message has landed.
// GATE-1
#[test]
fn a_match_counts_before_its_payload_has_landed() {
    for matched_late in [false, true] {
        let mut rig = Setup::new(slow(1)).keeping(4 << 20).build();
        rig.protocols[1].hold_commits();
        let post = |rig: &mut Rig| rig.receive(1, from_any(1), 8000);
        let early = (!matched_late).then(|| post(&mut rig));
        rig.send(0, to(1, 1), &payload(1, 8000));
        until_fetching(&mut rig, 1);
        let receipt = early.unwrap_or_else(|| post(&mut rig));
        assert!(matches!(
            rig.protocols[1].events()[..],
            [Noted::Match { .. }]
        ));
        assert!(!rig.is_received(&receipt));
        rig.send(1, to(0, 2), &[1; 8]);
        assert!(rig.finish_receive(&receipt).1 == payload(1, 8000));
        assert_eq!(rig.posted(1, LaneKind::Data), 0, "the send has left");
        rig.protocols[1].commit();
        rig.expect(0, from(1, 2), &[1; 8]);
        assert_eq!(rig.protocols[1].events().len(), 1);
        rig.end();
    }
}

/// A rank has something unsent while a payload is to be fetched from it.
#[test]
fn a_rank_that_is_fetched_from_is_not_through() {
    let mut rig = Setup::new(slow(1)).keeping(4 << 20).build();
    assert!(!rig.engines[0].has_unsent());
    let sent = rig.send(0, to(1, 1), &payload(1, 8000));
    assert!(rig.is_sent(&sent));
    rig.settle();
    assert!(rig.engines[0].has_unsent() && !rig.engines[0].has_unposted());
    rig.expect(1, from(0, 1), &payload(1, 8000));
    rig.end();
}

/// A message above the eager limit is announced, also if it is shorter than a fragment.
#[test]
fn short_messages_beyond_the_eager_limit_are_announced() {
    for network in networks::all() {
        let mut network = network;
        network.attributes.eager_bytes_max = 1000;
        let mut rig = Setup::new(network).build();
        for (bytes, rendezvous) in [(1000, 0), (1001, 1), (8192, 2)] {
            let sent = rig.send(0, synchronous(1, 1), &payload(1, bytes));
            rig.settle();
            assert_eq!(rig.engines[0].statistics().rendezvous, rendezvous);
            rig.expect(1, from(0, 1), &payload(1, bytes));
            rig.finish_send(&sent);
        }
        rig.end();
    }
}

/// Landings overtake each other or stay in order, and the bytes are right.
#[test]
fn landings_end_in_any_order() {
    let (mut in_order, mut overtaking) = (0, 0);
    for seed in 0..20 {
        let mut rig = Setup::new(slow(seed)).build();
        let receipts = [0, 1, 2].map(|tag| rig.receive(1, from(0, tag), 4000));
        for tag in [0, 1, 2] {
            rig.send(0, to(1, tag), &payload(tag as u64, 4000));
        }
        for (receipt, tag) in receipts.iter().zip(0..) {
            assert!(rig.finish_receive(receipt).1 == payload(tag, 4000));
        }
        let events = rig.network.events();
        let landed = events.iter().filter_map(|(_, event)| match event {
            Event::Landed(_, position) => Some(*position),
            _ => None,
        });
        match landed.is_sorted() {
            true => in_order += 1,
            false => overtaking += 1,
        }
        rig.end();
    }
    assert!(in_order > 0 && overtaking > 0, "{in_order}, {overtaking}");
}
