//! Correlated sets: what is kept for a member, and what a checkpoint in a round holds.

use crate::networks;
use crate::rig::{Rig, Setup, from, payload, to};
use refrain_ring::{CHUNK_BYTES, Rank, Ssn};
use refrain_transport::engine::Progress;
use refrain_transport::fabric::sim::Options;

const MESSAGE_BYTES: usize = 20_000;

/// Ranks 0 and 1 are a set, rank 2 is alone. All keep payload.
fn rig(network: Options) -> Rig {
    let mut rig = Setup::new(network).ranks(3).keeping(4 << 20).build();
    let engines = rig
        .engines
        .drain(..)
        .zip([vec![Rank(1)], vec![Rank(0)], vec![]]);
    rig.engines = engines
        .map(|(engine, members)| engine.with_set(members))
        .collect();
    rig
}

fn exchange(rig: &mut Rig, receiver: u32, count: u64) {
    for message in 0..count {
        let data = payload(message, MESSAGE_BYTES);
        let sent = rig.send(0, to(receiver, 1), &data);
        rig.expect(receiver as usize, from(0, 1), &data);
        rig.finish_send(&sent);
    }
    rig.settle();
}

fn held_chunks(rig: &mut Rig, receiver: u32) -> u64 {
    rig.settle();
    rig.engines[0].trim();
    rig.engines[0].log_bytes_of(Rank(receiver)).0 / CHUNK_BYTES as u64
}

/// The messages in the log of rank 0 to rank 1 that a checkpoint of rank 0 would hold.
fn kept(rig: &mut Rig) -> Vec<Ssn> {
    let engine = &mut rig.engines[0];
    let from = engine.log_kept_from(Rank(1));
    let mut reader = engine.read_back(Rank(1), from);
    let mut ssns = Vec::new();
    loop {
        let progress = engine.read_on(&mut reader, &mut |header, _| ssns.push(header.ssn));
        match progress.expect("the log can be read") {
            Progress::Records(_) | Progress::Passed(_) => {}
            Progress::End => break,
            Progress::Waiting => panic!("there is no disk"),
        }
    }
    ssns.dedup();
    ssns
}

fn begin_round(rig: &mut Rig) {
    for member in [0, 1] {
        rig.engines[member].begin_round(1);
    }
    rig.until("all tokens are seen", |rig| {
        rig.engines[..2]
            .iter()
            .all(|engine| engine.is_round_begun())
    });
}

/// Nothing is kept for a member, and everything for others.
// SET-1
#[test]
fn what_a_member_has_received_is_freed() {
    for network in networks::all() {
        let mut rig = rig(network);
        exchange(&mut rig, 1, 60);
        assert_eq!(held_chunks(&mut rig, 1), 1, "the one being filled");
        exchange(&mut rig, 2, 60);
        assert_eq!(held_chunks(&mut rig, 2), 5);
        rig.end();
    }
}

/// In a round, what has arrived before the token is in the receiver's checkpoint, and what comes later
/// in the sender's log, received or not.
// SET-2 SET-3
#[test]
fn each_message_in_transit_is_in_a_checkpoint() {
    for network in networks::all() {
        let mut rig = rig(network);
        exchange(&mut rig, 1, 30);
        // Two messages that the program of rank 1 has not received, the second for another tag.
        let data = [payload(7, MESSAGE_BYTES), payload(8, 3)];
        let sent = [
            rig.send(0, to(1, 1), &data[0]),
            rig.send(0, to(1, 2), &data[1]),
        ];
        rig.settle();
        begin_round(&mut rig);
        let after = [payload(9, 10), payload(10, MESSAGE_BYTES)];
        let later = [
            rig.send(0, to(1, 1), &after[0]),
            rig.send(0, to(1, 1), &after[1]),
        ];
        rig.until("the checkpoint has what had arrived", |rig| {
            rig.engines[1].gather_from_members();
            rig.engines[1].state().is_ok()
        });
        let state = rig.engines[1].state().expect("just seen");
        let held: Vec<_> = (state.undelivered.iter())
            .map(|it| (it.source, it.ssn, it.tag, it.payload.to_vec()))
            .collect();
        let expected = [
            (Rank(0), Ssn(30), 1, data[0].to_vec()),
            (Rank(0), Ssn(31), 2, data[1].to_vec()),
        ];
        assert_eq!(held, expected);
        let delivered = &state.delivered[0];
        assert!(delivered.until.program >= Ssn(32), "{delivered:?}");
        assert!(
            delivered.except.iter().all(|ssn| *ssn >= Ssn(32)),
            "{delivered:?}"
        );
        // All of them are received before rank 0 takes its checkpoint.
        for (tag, data) in [(1, &data[0]), (2, &data[1]), (1, &after[0]), (1, &after[1])] {
            rig.expect(1, from(0, tag), data);
        }
        for sent in sent.iter().chain(&later) {
            rig.finish_send(sent);
        }
        rig.settle();
        assert_eq!(kept(&mut rig), [Ssn(32), Ssn(33)]);
        rig.engines[0].end_round();
        rig.engines[1].end_round();
        assert_eq!(held_chunks(&mut rig, 1), 1, "the one being filled");
        rig.end();
    }
}

/// The answers of an earlier round do not count for a later one.
// SET-2
#[test]
fn each_round_has_tokens_of_its_own() {
    let mut rig = rig(networks::calm());
    begin_round(&mut rig);
    rig.engines[0].end_round();
    assert!(!rig.engines[0].is_round_begun());
    rig.engines[0].begin_round(2);
    assert!(!rig.engines[0].is_round_begun());
    rig.until("the token is seen", |rig| rig.engines[0].is_round_begun());
    rig.end();
}
