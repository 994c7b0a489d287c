//! Messages of a rank to itself.

use crate::networks;
use crate::rig::{Setup, UNTOUCHED, from, from_any, payload, synchronous, to};
use refrain_ring::{Rank, Ssn};
use refrain_transport::engine::Started;
use refrain_transport::fabric::sim::LaneKind;

const SIZES: [usize; 5] = [0, 1, 8193, 100_000, 3_000_000];

/// A message of a rank to itself arrives like any other, whether send or receive is first, without
/// progress and without the fabric. It takes no log memory, so it may be longer than the log.
#[test]
fn a_message_to_oneself_arrives_past_the_fabric() {
    for keeps in [false, true] {
        let mut setup = Setup::new(networks::calm()).keeping(1 << 20);
        setup.keeps_payload = keeps;
        let mut rig = setup.build();
        for bytes in SIZES {
            let data = payload(1, bytes);
            let receipt = rig.receive(0, from(0, 1), bytes);
            let sent = rig.send(0, to(0, 1), &data);
            assert!(matches!(sent.started, Started::Done(_)));
            assert!(rig.is_received(&receipt));
            assert!(rig.finish_receive(&receipt).1 == data);

            let sent = rig.send(0, to(0, 1), &data);
            assert!(matches!(sent.started, Started::Done(_)));
            sent.room.fill(0);
            let receipt = rig.receive(0, from(0, 1), bytes);
            assert!(rig.is_received(&receipt));
            let (outcome, found) = rig.finish_receive(&receipt);
            assert!(found == data);
            assert_eq!(outcome.status.source, Rank(0));
        }
        assert_eq!(rig.posted(0, LaneKind::Data), 0);
        assert_eq!(rig.engines[0].log_bytes().0, 0);
        rig.end();
    }
}

/// A synchronous send of a rank to itself ends with its receive, at once if the receive already
/// waits.
#[test]
fn a_synchronous_send_to_oneself_ends_with_its_match() {
    let mut rig = Setup::new(networks::calm()).build();
    for bytes in SIZES {
        let data = payload(2, bytes);
        let receipt = rig.receive(0, from(0, 1), bytes);
        let sent = rig.send(0, synchronous(0, 1), &data);
        assert!(matches!(sent.started, Started::Done(_)));
        assert!(rig.finish_receive(&receipt).1 == data);

        let sent = rig.send(0, synchronous(0, 1), &data);
        assert!(!rig.is_sent(&sent));
        let receipt = rig.receive(0, from(0, 1), bytes);
        assert!(rig.is_sent(&sent));
        rig.finish_send(&sent);
        assert!(rig.finish_receive(&receipt).1 == data);
    }
    rig.end();
}

/// Wildcards, order, truncation and matched probes are as with other ranks.
#[test]
fn messages_to_oneself_follow_the_rules() {
    let mut rig = Setup::new(networks::calm()).build();
    let posted = rig.receive(0, from_any(1), 10);
    let clock = rig.engines[0].now();
    for message in 0..4 {
        rig.send(0, to(0, 1), &payload(message, 10));
    }
    assert!(rig.finish_receive(&posted).1 == payload(0, 10));
    assert_eq!(rig.protocols[0].matches(), [(clock, Rank(0), Ssn(0))]);
    let (matched, ssn) = rig.engines[0]
        .take_matched(&from_any(1))
        .expect("it is there");
    assert_eq!(ssn, Ssn(1));
    let room = rig.room(&[UNTOUCHED; 10]);
    let buffer = crate::memory::receive_buffer(&room, 4);
    let receipt = rig.receive_into(0, from(0, 1), room, buffer);
    let (outcome, found) = rig.finish_receive(&receipt);
    assert_eq!(outcome.truncated_to, Some(4));
    assert!(found[..4] == payload(2, 10)[..4] && found[4..] == [UNTOUCHED; 6]);
    let room = rig.room(&[0; 10]);
    let buffer = crate::memory::receive_buffer(&room, 10);
    let id = rig.engines[0].start_matched_receive(buffer, matched);
    assert!(rig.engines[0].outcome(id).is_some());
    rig.engines[0].retire(id);
    assert!(room.read() == payload(1, 10));
    rig.expect(0, from_any(1), &payload(3, 10));
    assert_eq!(rig.protocols[0].matches().len(), 2);
    rig.end();
}
