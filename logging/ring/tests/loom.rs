//! The log under every interleaving (up to three preemptions) that its memory
//! orderings allow. Run with
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
//!     cargo test -p refrain-ring --release --test loom
//! ```
//!
//! A chunk has room for two records here, and payloads are empty: a record is
//! told by its SSN, tag and extent, which live in cells whose unsynchronised
//! use loom reports.
//!
//! What these models were seen to catch, each bug planted by hand in `src/`:
//!
//! | planted bug | caught by |
//! |---|---|
//! | `publish_first_word` stores Relaxed | all but the `needs_a` pair |
//! | `load_first_word` loads Relaxed | likewise |
//! | `append` stores the first word before the rest of the header | likewise |
//! | `reserve` does not clear the word behind its record | `chunk_reuse`, `chunk_moves…` |
//! | `clear_ahead` goes on behind the chunk's end | `publication_between…`, `chunk_reuse_cleared…`, `chunk_moves…` |
//! | `clear_ahead` clears nothing but says so | `chunk_reuse_cleared…` |
//! | a chunk begins with what was cleared in the one before | both `chunk_reuse…`, `chunk_moves…` |
//! | a chunk's first record is not cleared, or after the link to it | `chunk_reuse`, `chunk_moves…` |
//! | the link's first word is stored before its rest | `chunk_change`, `chunk_reuse`, `chunk_moves…` |
//! | `append` publishes at once | `gated_batch` |
//! | `publish` clears the word behind, and after publishing | `gated_batch` |
//! | a chunk is trimmed when its first half is released | `chunk_reuse` |
//! | the name of the chunk is withdrawn after the link to nowhere (planted in the model) | `chunk_is_left` |
//!
//! Two more stay planted: `chunk_reuse_needs_a_release`, `…_an_acquire`.

#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, ChannelReader, ChunkId, Frame, Incarnation, Position, Rank,
    ReadError, RecordHeader, RecordKind, ReserveError, Ssn,
};
use std::sync::atomic::{AtomicBool as Witness, Ordering::Relaxed};

const SOURCE: Rank = Rank(0);
const INCARNATION: Incarnation = Incarnation(9);
const CHUNK: u64 = CHUNK_BYTES as u64;

/// The message with this SSN to this rank; every field that can say so does.
fn message(destination: Rank, ssn: u64) -> RecordHeader {
    RecordHeader {
        payload_bytes: 0,
        kind: RecordKind::Eager,
        flags: (ssn % 2) as u16,
        incarnation: INCARNATION,
        source: SOURCE,
        ssn: Ssn(ssn),
        context: destination.0 + 100,
        tag: -(ssn as i32),
        extent: ssn << 40,
    }
}

/// The sending side of one channel: sends messages 0, 1, 2 …
struct Sender {
    log: ChannelLog,
    destination: Rank,
    next_ssn: u64,
}

impl Sender {
    /// A channel of two chunks' window, and the reader of its log.
    fn open(arena: &mut Arena, destination: Rank) -> (Self, Receiver) {
        let mut log = ChannelLog::new(SOURCE, INCARNATION, destination, 2 * CHUNK);
        // The log begins when it first needs room; its receiver gets the first chunk.
        let none = log.append_if(arena, 0, true, message(destination, 0), |_, _| false);
        assert!(none.expect("room").is_none());
        let first = log.first_chunk().expect("the log has begun");
        let reader = ChannelReader::new(arena.region().clone(), 0, first);
        let receiver = Receiver {
            log: reader.expect("the chunk exists"),
            rank: destination,
            next_ssn: 0,
        };
        let sender = Self {
            log,
            destination,
            next_ssn: 0,
        };
        (sender, receiver)
    }

    fn pack(&mut self, arena: &mut Arena) -> Result<Frame, ReserveError> {
        let header = message(self.destination, self.next_ssn);
        let frame = self.log.append(arena, 0, true, header, |_| {})?;
        self.next_ssn += 1;
        Ok(frame)
    }

    fn send(&mut self, arena: &mut Arena) -> Result<(), ReserveError> {
        let frame = self.pack(arena)?;
        frame.publish(arena.region());
        Ok(())
    }

    /// Sends, and clears the lines behind it for the messages to come: to the
    /// end of the chunk, which is nearer than what is cleared ahead.
    fn send_and_clear(&mut self, arena: &mut Arena) -> Result<(), ReserveError> {
        self.send(arena)?;
        self.log.clear_ahead(arena);
        Ok(())
    }
}

/// The receiving side: expects messages 0, 1, 2 … and nothing else.
struct Receiver {
    log: ChannelReader,
    rank: Rank,
    next_ssn: u64,
}

impl Receiver {
    /// Takes the next message, if it is there.
    fn receive(&mut self) -> bool {
        let Some(record) = self.log.read().expect("the log is sound") else {
            return false;
        };
        assert_eq!(record.header, message(self.rank, self.next_ssn));
        self.next_ssn += 1;
        true
    }

    fn look(&mut self, times: usize) {
        for _ in 0..times {
            self.receive();
        }
    }

    /// Takes what is left once the sender has ended.
    fn receive_rest(&mut self, messages: u64) {
        while self.receive() {}
        assert_eq!(self.next_ssn, messages, "every message arrives");
    }
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(model);
}

/// A reader sees a record wholly or not at all.
#[test]
fn publication() {
    explore(|| {
        let mut arena = Arena::heap(2 * CHUNK_BYTES);
        let (mut sender, mut receiver) = Sender::open(&mut arena, Rank(1));
        let sending = thread::spawn(move || {
            sender.send(&mut arena).expect("room");
            sender.send(&mut arena).expect("room");
        });
        receiver.look(3);
        sending.join().expect("the sender ends");
        receiver.receive_rest(2);
    });
}

/// Lines are cleared before, between and behind records while a reader looks
/// on: what is published stays, also beyond a record that was declined.
#[test]
fn publication_between_clearings() {
    explore(|| {
        let mut arena = Arena::heap(2 * CHUNK_BYTES);
        let (mut sender, mut receiver) = Sender::open(&mut arena, Rank(1));
        let sending = thread::spawn(move || {
            // The record that began the log was declined.
            sender.log.clear_ahead(&arena);
            let frame = sender.pack(&mut arena).expect("room");
            sender.log.clear_ahead(&arena);
            frame.publish(arena.region());
            sender.log.clear_ahead(&arena);
            sender.send_and_clear(&mut arena).expect("room");
            sender.send_and_clear(&mut arena).expect("room");
        });
        receiver.look(4);
        sending.join().expect("the sender ends");
        receiver.receive_rest(3);
    });
}

/// The log continues in the next chunk without a gap.
#[test]
fn chunk_change() {
    explore(|| {
        let mut arena = Arena::heap(2 * CHUNK_BYTES);
        let (mut sender, mut receiver) = Sender::open(&mut arena, Rank(1));
        let sending = thread::spawn(move || {
            for _ in 0..4 {
                sender.send(&mut arena).expect("room");
            }
        });
        receiver.look(5);
        sending.join().expect("the sender ends");
        receiver.receive_rest(4);
    });
}

/// Pack now, publish when stable: records that the gate holds are invisible to readers,
/// even when the log has meanwhile continued in the next chunk.
#[test]
fn gated_batch() {
    explore(|| {
        let mut arena = Arena::heap(2 * CHUNK_BYTES);
        let (mut sender, mut receiver) = Sender::open(&mut arena, Rank(1));
        let stable = Arc::new(AtomicBool::new(false));
        let sending = thread::spawn({
            let stable = stable.clone();
            move || {
                sender.send(&mut arena).expect("room");
                let batch = [(); 2].map(|()| sender.pack(&mut arena).expect("room"));
                // Relaxed: the publication itself must order it.
                stable.store(true, Ordering::Relaxed);
                for frame in batch {
                    frame.publish(arena.region());
                }
            }
        });
        for _ in 0..4 {
            let gated = receiver.receive() && receiver.next_ssn > 1;
            assert!(!gated || stable.load(Ordering::Relaxed), "seen too early");
        }
        sending.join().expect("the sender ends");
        receiver.receive_rest(3);
    });
}

/// A chunk is written again once its reader has released it. The release
/// travels from reader to writer as a position in an atomic counter.
fn reuse(
    send: fn(&mut Sender, &mut Arena) -> Result<(), ReserveError>,
    store: Ordering,
    load: Ordering,
    reused: &'static Witness,
) {
    const MESSAGES: u64 = 6;
    explore(move || {
        let mut arena = Arena::heap(2 * CHUNK_BYTES);
        let (mut sender, mut receiver) = Sender::open(&mut arena, Rank(1));
        let released = Arc::new(AtomicU64::new(0));
        let sending = thread::spawn({
            let released = released.clone();
            move || {
                while sender.next_ssn < MESSAGES {
                    let position = Position(released.load(load));
                    sender.log.trim_released(&mut arena, position);
                    match send(&mut sender, &mut arena) {
                        Ok(()) => {}
                        Err(ReserveError::Window) => break,
                        Err(other) => panic!("{other}"),
                    }
                }
                reused.fetch_or(sender.next_ssn == MESSAGES, Relaxed);
                sender.next_ssn
            }
        });
        for _ in 0..5 {
            receiver.look(1);
            released.store(receiver.log.position().0, store);
        }
        let sent = sending.join().expect("the sender ends");
        receiver.receive_rest(sent);
    });
}

#[test]
fn chunk_reuse() {
    static REUSED: Witness = Witness::new(false);
    reuse(Sender::send, Ordering::Release, Ordering::Acquire, &REUSED);
    assert!(REUSED.load(Relaxed), "some interleaving reuses a chunk");
}

/// Lines that are cleared ahead need not be cleared again when their turn comes,
/// also where a former log wrote.
#[test]
fn chunk_reuse_cleared_ahead() {
    static REUSED: Witness = Witness::new(false);
    let send = Sender::send_and_clear;
    reuse(send, Ordering::Release, Ordering::Acquire, &REUSED);
    assert!(REUSED.load(Relaxed), "some interleaving reuses a chunk");
}

/// The models above detect a fault.
#[test]
#[should_panic(expected = "Causality violation")]
fn chunk_reuse_needs_a_release() {
    static REUSED: Witness = Witness::new(false);
    reuse(Sender::send, Ordering::Relaxed, Ordering::Acquire, &REUSED);
}

/// Likewise at the writer's end.
#[test]
#[should_panic(expected = "Causality violation")]
fn chunk_reuse_needs_an_acquire() {
    static REUSED: Witness = Witness::new(false);
    reuse(Sender::send, Ordering::Release, Ordering::Relaxed, &REUSED);
}

/// A chunk is given back while it is being filled, and taken again: the receiver leaves it at the
/// link to nowhere, and begins in the chunk that is named to it. A name of before is not followed.
#[test]
fn chunk_is_left() {
    static LEFT: Witness = Witness::new(false);
    explore(|| {
        let mut arena = Arena::heap(2 * CHUNK_BYTES);
        let (mut sender, mut receiver) = Sender::open(&mut arena, Rank(1));
        let (region, named) = (arena.region().clone(), Arc::new(AtomicU64::new(1)));
        let released = Arc::new(AtomicU64::new(0));
        let sending = thread::spawn({
            let (named, released) = (named.clone(), released.clone());
            move || {
                sender.send(&mut arena).expect("room");
                thread::yield_now();
                if released.load(Ordering::Acquire) < sender.log.tail().0 {
                    return sender.next_ssn;
                }
                named.store(0, Ordering::Relaxed);
                let link = sender.log.rest(&arena, None).expect("all is released");
                link.publish(arena.region());
                thread::yield_now();
                let position = Position(released.load(Ordering::Acquire));
                sender.log.trim_released(&mut arena, position);
                LEFT.fetch_or(sender.log.first_chunk().is_none(), Relaxed);
                sender.send(&mut arena).expect("room");
                let last = match sender.log.held_bytes() {
                    CHUNK => sender.log.first_chunk().expect("it holds one"),
                    // The first one is not left yet.
                    _ => ChunkId(1),
                };
                named.store(u64::from(last.0) + 1, Ordering::Release);
                sender.next_ssn
            }
        });
        let mut rests_at = None;
        let mut look = |receiver: &mut Receiver| {
            if let Some(next) = rests_at {
                if let Some(first) = named.load(Ordering::Acquire).checked_sub(1) {
                    let reader = ChannelReader::new(region.clone(), 0, ChunkId(first as u32));
                    receiver.log = reader.expect("the chunk exists");
                    assert_eq!(receiver.log.position(), next, "an earlier name");
                    rests_at = None;
                }
                return thread::yield_now();
            }
            match receiver.log.read() {
                Ok(None) => thread::yield_now(),
                Ok(Some(record)) => {
                    assert_eq!(record.header, message(receiver.rank, receiver.next_ssn));
                    receiver.next_ssn += 1;
                    released.store(receiver.log.position().0, Ordering::Release);
                }
                Err(ReadError::Resting(next)) => {
                    rests_at = Some(next);
                    released.store(next.0, Ordering::Release);
                }
                Err(error) => panic!("{error}"),
            }
        };
        for _ in 0..5 {
            look(&mut receiver);
        }
        let sent = sending.join().expect("the sender ends");
        while receiver.next_ssn < sent {
            look(&mut receiver);
        }
    });
    assert!(LEFT.load(Relaxed), "some interleaving frees the chunk");
}

/// A chunk that one channel has freed is taken by another: its new reader sees
/// only what was written for it.
#[test]
fn chunk_moves_between_channels() {
    static MOVED: Witness = Witness::new(false);
    explore(|| {
        let mut arena = Arena::heap(3 * CHUNK_BYTES);
        let (mut first, mut first_receiver) = Sender::open(&mut arena, Rank(1));
        let (mut second, mut second_receiver) = Sender::open(&mut arena, Rank(2));
        for _ in 0..3 {
            first.send_and_clear(&mut arena).expect("room");
        }
        for _ in 0..2 {
            second.send_and_clear(&mut arena).expect("room");
        }
        let released = Arc::new(AtomicU64::new(0));
        let first_receiving = thread::spawn({
            let released = released.clone();
            move || {
                first_receiver.receive_rest(3);
                released.store(first_receiver.log.position().0, Ordering::Release);
            }
        });
        let second_receiving = thread::spawn(move || {
            second_receiver.look(4);
            second_receiver
        });
        // All three chunks are in use.
        let position = Position(released.load(Ordering::Acquire));
        first.log.trim_released(&mut arena, position);
        match second.send_and_clear(&mut arena) {
            Ok(()) => MOVED.store(true, Relaxed),
            Err(ReserveError::Arena(_)) => {}
            Err(other) => panic!("{other}"),
        }
        first_receiving.join().expect("the first receiver ends");
        let mut second_receiver = second_receiving.join().expect("the second receiver ends");
        second_receiver.receive_rest(second.next_ssn);
    });
    assert!(MOVED.load(Relaxed), "some interleaving moves the chunk");
}
