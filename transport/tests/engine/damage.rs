//! Records that a correct peer does not send.

use crate::networks;
use crate::rig::{Rig, Setup, from, payload, to};
use refrain_ring::{Incarnation, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::engine::EngineError;
use refrain_transport::fabric::sim::{LaneKind, Options};

fn record(kind: RecordKind, ssn: u64, extent: u64, data: &[u8]) -> Vec<u8> {
    let header = RecordHeader {
        payload_bytes: data.len() as u32,
        kind,
        flags: 0,
        incarnation: Incarnation(0),
        source: Rank(0),
        ssn: Ssn(ssn),
        context: 0,
        tag: 1,
        extent,
    };
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(data);
    bytes
}

/// Injected records lie in no log: only receivers that have their own copy can receive one.
fn networks() -> impl Iterator<Item = Options> {
    let all = networks::all().into_iter();
    all.filter(|network| !network.attributes.reads_in_place)
}

fn inject(rig: &Rig, bytes: &[u8]) {
    let lane = LaneKind::Data;
    assert!(rig.network.inject(Rank(0), Rank(1), lane, bytes));
}

/// A message that was received before is dropped and counted: neither a posted receive nor a probe
/// sees it, and the channel continues.
#[test]
fn a_duplicate_is_dropped_and_counted() {
    for network in networks() {
        let distant_bytes_min = network.distant_bytes_min;
        let mut rig = Setup::new(network).build();
        for message in 0..3 {
            rig.send(0, to(1, 1), &payload(message, 100));
            rig.expect(1, from(0, 1), &payload(message, 100));
        }
        for (kind, ssn) in [(RecordKind::Eager, 2), (RecordKind::Eager, 0)] {
            inject(&rig, &record(kind, ssn, 4, &[9; 4]));
        }
        inject(&rig, &record(RecordKind::Rendezvous, 1, 100_000, &[]));
        rig.settle();
        assert_eq!(rig.engines[1].find(&from(0, 1)), None);
        assert_eq!(rig.engines[1].statistics().duplicates, 3);
        let receipt = rig.receive(1, from(0, 1), 100);
        inject(&rig, &record(RecordKind::Eager, 2, 4, &[9; 4]));
        rig.settle();
        assert!(!rig.is_received(&receipt), "a duplicate was matched");
        rig.send(0, to(1, 1), &payload(3, 100));
        assert!(rig.finish_receive(&receipt).1 == payload(3, 100));
        assert_eq!(rig.engines[1].statistics().duplicates, 4);
        let is_distant = distant_bytes_min == Some(1);
        assert_eq!(
            rig.landed(),
            if is_distant { 4 } else { 0 },
            "duplicates are fetched"
        );
        rig.end();
    }
}

/// A fragment of a message that has arrived is dropped.
#[test]
fn a_fragment_of_a_message_that_is_here_is_dropped() {
    for network in networks() {
        let mut rig = Setup::new(network).build();
        rig.send(0, to(1, 1), &payload(1, 20_000));
        rig.settle();
        inject(&rig, &record(RecordKind::Fragment, 0, 8192, &[9; 100]));
        rig.settle();
        assert_eq!(rig.engines[1].statistics().duplicates, 1);
        rig.expect(1, from(0, 1), &payload(1, 20_000));
        rig.end();
    }
}

/// A fragment of a message that has not begun is an error: its beginning is lost.
#[test]
fn a_fragment_without_a_beginning_is_an_error() {
    for network in networks() {
        for ssn in [1, 5] {
            let mut rig = Setup::new(network.clone()).build();
            rig.send(0, to(1, 1), &payload(1, 20_000));
            rig.settle();
            inject(&rig, &record(RecordKind::Fragment, ssn, 8192, &[9; 100]));
            let error = rig.until_error(1);
            let found = Ssn(ssn);
            assert!(
                matches!(error, EngineError::Gap { found: of, expected: Ssn(1), .. } if of == found),
                "{error}"
            );
        }
    }
}

/// A fragment lies at its stated offset, whatever arrived before it.
#[test]
fn a_fragment_lies_where_it_says() {
    for network in networks() {
        for expected in [true, false] {
            let mut rig = Setup::new(network.clone()).build();
            let early = expected.then(|| rig.receive(1, from(0, 1), 48));
            inject(&rig, &record(RecordKind::Eager, 0, 48, &[1; 16]));
            inject(&rig, &record(RecordKind::Fragment, 0, 32, &[3; 16]));
            inject(&rig, &record(RecordKind::Fragment, 0, 16, &[2; 16]));
            rig.settle();
            let receipt = early.unwrap_or_else(|| rig.receive(1, from(0, 1), 48));
            let (_, found) = rig.finish_receive(&receipt);
            assert_eq!(found, [[1; 16], [2; 16], [3; 16]].concat());
            rig.end();
        }
    }
}

/// A fragment with an offset beyond its message writes nothing behind the receive's room.
#[test]
fn a_fragment_beyond_its_message_writes_nowhere() {
    for network in networks() {
        let mut rig = Setup::new(network).build();
        let receipt = rig.receive(1, from(0, 1), 64);
        inject(&rig, &record(RecordKind::Eager, 0, 200, &[1; 64]));
        for extent in [64, 1 << 40, u64::MAX - 68] {
            inject(&rig, &record(RecordKind::Fragment, 0, extent, &[2; 68]));
        }
        let (_, found) = rig.finish_receive(&receipt);
        assert_eq!(found, [1; 64]);
        rig.settle();
    }
}

/// A fragment that is sent twice may fill its message too early: while anything lands there, the
/// receive does not end, and its buffer is not given back.
#[test]
fn a_repeated_fragment_does_not_land_in_a_buffer_that_is_given_back() {
    for network in networks() {
        let mut rig = Setup::new(network).build();
        let receipt = rig.receive(1, from(0, 1), 200);
        inject(&rig, &record(RecordKind::Eager, 0, 200, &[1; 100]));
        for _ in 0..4 {
            inject(&rig, &record(RecordKind::Fragment, 0, 100, &[2; 100]));
        }
        let (_, found) = rig.finish_receive(&receipt);
        assert_eq!(found[100..], [2; 100]);
        receipt.room.fill(0x11);
        rig.settle();
        assert_eq!(receipt.room.read(), [0x11; 200]);
    }
}

/// A missing message is an error that names the message that arrived and the one that was expected.
/// The arrived message is not delivered.
#[test]
fn a_gap_is_an_error() {
    for network in networks() {
        let mut rig = Setup::new(network).build();
        rig.send(0, to(1, 1), &payload(1, 100));
        rig.expect(1, from(0, 1), &payload(1, 100));
        let receipt = rig.receive(1, from(0, 1), 4);
        inject(&rig, &record(RecordKind::Eager, 3, 4, &[9; 4]));
        match rig.until_error(1) {
            EngineError::Gap {
                source_rank,
                found,
                expected,
            } => assert_eq!((source_rank, found, expected), (Rank(0), Ssn(3), Ssn(1))),
            other => panic!("{other}"),
        }
        assert!(!rig.is_received(&receipt));
    }
}
