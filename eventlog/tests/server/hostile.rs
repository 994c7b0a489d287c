//! Faulty and hostile clients are disconnected, and other clients are not affected.

use crate::batches::Life;
use crate::rank::{Rank, Wire, hello};
use crate::serving::Threaded;
use bytes::BytesMut;
use refrain_eventlog::Level;
use refrain_eventlog::message::{CommitPath, FRAME_BYTES_MAX, PROTOCOL, ToLogger};
use refrain_wire::{FRAME_HEADER_BYTES, Frame, Protocol};

const GOOD: Life = Life::new(1, 0, 0);
const BAD: Life = Life::new(1, 1, 0);

/// A server with one correct client, which commits before, during and after each attack.
struct Stage {
    server: Threaded,
    good: Rank,
    next: u64,
}

impl Stage {
    fn new() -> Self {
        let server = Threaded::new(Level::Placed);
        let good = Rank::join(&server.socket, GOOD, 0, CommitPath::Messages);
        let mut stage = Self {
            server,
            good,
            next: 0,
        };
        stage.check();
        stage
    }

    fn check(&mut self) {
        self.good.commit(self.next, 1);
        self.next += 1;
        self.good.await_stable(self.next);
        let read = self.server.reader().read(&[GOOD], 0);
        assert_eq!(read.len() as u64, self.next);
    }

    fn bad(&self) -> Rank {
        Rank::join(&self.server.socket, BAD, 0, CommitPath::Messages)
    }

    fn wire(&self) -> Wire {
        Wire::unix(&self.server.socket)
    }
}

#[test]
fn what_is_no_frame_ends_the_connection() {
    let mut stage = Stage::new();
    let mut wire = stage.wire();
    wire.say_bytes(&PROTOCOL.header(Frame::Message(FRAME_BYTES_MAX + 1)));
    assert!(wire.refusal().contains("at most"));
    stage.check();
    let mut wire = stage.wire();
    let header = PROTOCOL.header(Frame::Message(3));
    wire.say_bytes(&[&header[..], &[99; 3]].concat());
    assert!(wire.refusal().contains("no message"));
    stage.check();
    let mut wire = stage.wire();
    wire.say_bytes(b"GET / HTTP/1.1\r\n\r\n");
    assert!(wire.refusal().contains("not a frame of the protocol"));
    stage.check();
}

#[test]
fn random_bytes_before_and_after_a_hello_harm_nobody() {
    let mut stage = Stage::new();
    let mut state = 0x5eed_u64;
    println!("seed {state:#x}");
    for round in 0..200 {
        let mut bytes = Vec::new();
        for _ in 0..(round * 7) % 300 {
            // A linear congruence is random enough here.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            bytes.push((state >> 56) as u8);
        }
        // Most random headers would be invalid: valid ones reach the messages.
        if round % 2 == 0 && bytes.len() >= FRAME_HEADER_BYTES {
            let body = Frame::Message(bytes.len() - FRAME_HEADER_BYTES);
            bytes[..FRAME_HEADER_BYTES].copy_from_slice(&PROTOCOL.header(body));
            // Kinds that exist.
            if let Some(kind) = bytes.get_mut(FRAME_HEADER_BYTES) {
                *kind %= 8;
            }
        }
        match round % 4 {
            3 => stage.bad().wire.say_bytes(&bytes),
            _ => stage.wire().say_bytes(&bytes),
        }
    }
    stage.check();
}

#[test]
fn a_writer_commits_for_the_rank_and_life_of_its_hello_only() {
    let mut stage = Stage::new();
    let next = stage.next;
    let others = [
        GOOD.batch(next, 1),
        Life::new(2, 1, 0).batch(0, 1),
        Life::new(1, 1, 1).batch(0, 1),
        BAD.batch(5, 1),
        [BAD.batch(0, 1), vec![0]].concat(),
        BAD.batch(0, 2)[..50].to_vec(),
        Vec::new(),
    ];
    for (index, batch) in others.into_iter().enumerate() {
        let mut bad = stage.bad();
        bad.wire.say(&ToLogger::Commit { batch });
        println!("{index}: {}", bad.wire.refusal());
        assert_eq!(stage.server.reader().read(&[BAD], 0), [], "{index}");
        stage.check();
    }
}

#[test]
fn a_ring_takes_nothing_of_another_rank() {
    let mut stage = Stage::new();
    let mut bad = Rank::join(&stage.server.socket, BAD, 0, CommitPath::SharedMemory);
    let ring = bad.ring.as_mut().expect("shared memory");
    ring.write(&GOOD.batch(stage.next, 1)).expect("room");
    bad.ring_bell();
    assert_eq!(stage.server.reader().read(&[BAD], 0), []);
    stage.check();
}

#[test]
fn a_ring_with_a_gap_or_a_clock_that_goes_back_is_closed() {
    let mut stage = Stage::new();
    let mut bad = Rank::join(&stage.server.socket, BAD, 0, CommitPath::SharedMemory);
    let ring = bad.ring.as_mut().expect("shared memory");
    ring.write(&BAD.batch_at(0, 1, 100)).expect("room");
    ring.write(&BAD.batch_at(1, 1, 50)).expect("room");
    bad.ring_bell();
    let reason = bad.wire.refusal();
    assert!(reason.contains("goes back from 100 to 50"), "{reason}");
    stage.check();
}

#[test]
fn only_writers_write() {
    let mut stage = Stage::new();
    let batch = GOOD.batch(stage.next, 1);
    let commit = ToLogger::Commit { batch };
    for message in [
        commit,
        ToLogger::Drain,
        ToLogger::Leave,
        ToLogger::Trim { clock: u64::MAX },
    ] {
        let mut wire = stage.wire();
        wire.say(&message);
        assert!(wire.refusal().contains("send Hello first"));
        stage.check();
    }
    let mut bad = stage.bad();
    bad.wire
        .say(&ToLogger::Hello(hello(BAD, 0, CommitPath::Messages)));
    assert!(bad.wire.refusal().contains("second Hello"));
    let mut bad = stage.bad();
    bad.wire.say(&ToLogger::Leave);
    bad.commit(0, 1);
    assert!(bad.wire.refusal().contains("left"));
    stage.check();
}

#[test]
fn another_version_is_refused() {
    let stage = Stage::new();
    let mut wire = stage.wire();
    let newer = Protocol {
        version: PROTOCOL.version + 1,
        ..PROTOCOL
    };
    let (mut frame, hello) = (BytesMut::new(), hello(BAD, 0, CommitPath::Messages));
    newer
        .encode(&ToLogger::Hello(hello), &mut frame)
        .expect("a frame");
    wire.say_bytes(&frame);
    let reason = wire.refusal();
    let theirs = format!("the other side uses version {}", newer.version);
    assert!(reason.contains(&theirs), "{reason}");
}

#[test]
fn asking_for_what_is_not_there_is_refused() {
    let stage = Stage::new();
    let nobody = Life::new(77, 0, 0);
    let refused = stage.server.reader().try_read(&[nobody], 0, None);
    assert!(
        refused
            .expect_err("refused")
            .contains("there is no log of rank")
    );
}

#[test]
fn who_does_not_read_is_cut_off_and_holds_nobody_up() {
    let mut stage = Stage::new();
    let mut bad = stage.bad();
    // Each is acknowledged again (GATE-3), and the client does not read that.
    bad.commit(0, 1);
    let mut frame = BytesMut::new();
    let batch = BAD.batch(0, 1);
    let commit = ToLogger::Commit { batch };
    PROTOCOL.encode(&commit, &mut frame).expect("a frame");
    let many = frame.repeat(1000);
    // Until the server has closed the socket: a write fails, or
    // the server reads nothing more.
    while stage.server.reports().is_empty() {
        bad.wire.say_bytes(&frame);
        bad.wire.say_bytes(&many);
        let question = ToLogger::List;
        for _ in 0..100 {
            bad.wire.say(&question);
        }
    }
    assert!(stage.server.reports()[0].contains("does not read"));
    stage.check();
}

#[test]
fn who_dies_in_the_middle_of_a_frame_has_committed_nothing() {
    let mut stage = Stage::new();
    let mut bad = stage.bad();
    let mut frame = BytesMut::new();
    let batch = BAD.batch(0, 9);
    PROTOCOL
        .encode(&ToLogger::Commit { batch }, &mut frame)
        .expect("a frame");
    bad.wire.say_bytes(&frame[..frame.len() - 1]);
    bad.wire.close();
    let again = stage.bad();
    assert_eq!(again.welcome.end.0, 0);
    stage.check();
}

#[test]
fn limits_are_told() {
    let server = Threaded::with(Level::Placed, |options| {
        options.limits.ranks = 2;
        options.limits.connections = 4;
    });
    let _first = Rank::join(&server.socket, Life::new(1, 0, 0), 0, CommitPath::Messages);
    let _second = Rank::join(&server.socket, Life::new(1, 1, 0), 0, CommitPath::Messages);
    let third = Life::new(1, 2, 0);
    let refused = Rank::try_join(Wire::unix(&server.socket), third, 0, CommitPath::Messages);
    assert!(refused.err().expect("refused").contains("2 ranks"));
    let mut more: Vec<_> = (0..4).map(|_| Wire::unix(&server.socket)).collect();
    assert!(more[3].refusal().contains("4 connections"));
}
