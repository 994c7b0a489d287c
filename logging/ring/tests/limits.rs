//! Limits of a log: where it stops, its error, and what lets it continue; one scenario a
//! test. The random tests of the same limits are in `model.rs`.

#![cfg(not(loom))]
#![allow(
    unsafe_code,
    reason = "memory that is nobody's to clear is looked at as it is"
)]

#[path = "oracle/lure.rs"]
mod lure;

use refrain_ring::{
    Arena, ArenaFull, CHUNK_BYTES, ChannelLog, ChannelReader, Frontier, Incarnation, Position,
    Rank, RecordHeader, RecordKind, ReserveError, Ssn, Stream,
};
use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

/// Two payloads of this length fill a chunk.
const HALF: usize = (ChannelLog::PAYLOAD_BYTES_MAX - 64) / 2;
const CHUNK: u64 = CHUNK_BYTES as u64;

fn eager(ssn: Ssn) -> RecordHeader {
    RecordHeader {
        payload_bytes: 0,
        kind: RecordKind::Eager,
        flags: 0,
        incarnation: Incarnation(0),
        source: Rank(0),
        ssn,
        context: 0,
        tag: 0,
        extent: HALF as u64,
    }
}

/// A channel whose messages are single records.
struct Channel {
    log: ChannelLog,
    next_ssn: Ssn,
}

impl Channel {
    fn new(window_chunks: u64) -> Self {
        Self {
            log: ChannelLog::new(Rank(0), Incarnation(0), Rank(1), window_chunks * CHUNK),
            next_ssn: Ssn(0),
        }
    }

    /// Sends a message of half a chunk; returns its offset in the region.
    fn send(&mut self, arena: &mut Arena) -> Result<usize, ReserveError> {
        let ssn = self.next_ssn;
        let offset = self.send_as(arena, ssn)?;
        self.next_ssn = ssn.next();
        Ok(offset)
    }

    fn send_as(&mut self, arena: &mut Arena, ssn: Ssn) -> Result<usize, ReserveError> {
        let frame = self.log.append(arena, HALF, true, eager(ssn), |_| {})?;
        frame.publish(arena.region());
        Ok(frame.offset)
    }

    fn send_chunks(&mut self, arena: &mut Arena, chunks: u64) {
        for _ in 0..2 * chunks {
            self.send(arena).expect("there is room");
        }
    }

    fn trimmed_chunks(&self) -> u64 {
        self.log.trimmed().0 / CHUNK
    }
}

/// An arena whose system gives `extents` extents of memory, and that number.
fn arena_of(chunks: usize, extents: u32) -> (Arena, Rc<Cell<u32>>) {
    let left = Rc::new(Cell::new(extents));
    let region = Arena::heap(chunks * CHUNK_BYTES).region().clone();
    let arena = Arena::new(region, 0, {
        let left = left.clone();
        Box::new(move |_, _| {
            let rest = left.get().checked_sub(1);
            left.set(rest.ok_or(std::io::ErrorKind::OutOfMemory)?);
            Ok(())
        })
    });
    (arena, left)
}

/// A reader that keeps up: the log goes round in two chunks, which stay in the
/// cache, and asks the system for no more than one extent.
#[test]
fn a_log_that_is_read_at_once_goes_round_in_two_chunks() {
    let (mut arena, extents_left) = arena_of(32, 4);
    let mut channel = Channel::new(32);
    let mut reader = None;
    let mut chunks = HashSet::new();
    for _ in 0..500 {
        chunks.insert(channel.send(&mut arena).expect("room") / CHUNK_BYTES);
        let reader = reader.get_or_insert_with(|| {
            let first = channel.log.first_chunk().expect("the log has begun");
            ChannelReader::new(arena.region().clone(), 0, first).expect("the chunk exists")
        });
        assert!(reader.read().expect("the log is sound").is_some());
        channel.log.trim_released(&mut arena, reader.position());
    }
    assert_eq!(chunks.len(), 2);
    assert_eq!(extents_left.get(), 3);
}

#[test]
fn the_window_holds_one_channel_back_and_no_other() {
    let mut arena = Arena::heap(8 * CHUNK_BYTES);
    let (mut slow, mut other) = (Channel::new(3), Channel::new(3));
    slow.send_chunks(&mut arena, 3);
    assert!(matches!(slow.send(&mut arena), Err(ReserveError::Window)));
    other.send_chunks(&mut arena, 3);
    slow.log.trim_released(&mut arena, Position(CHUNK));
    slow.send_chunks(&mut arena, 1);
    assert!(matches!(slow.send(&mut arena), Err(ReserveError::Window)));
}

#[test]
fn a_window_is_two_chunks_at_least() {
    let mut arena = Arena::heap(8 * CHUNK_BYTES);
    let mut channel = Channel::new(0);
    channel.send_chunks(&mut arena, 2);
    assert!(matches!(
        channel.send(&mut arena),
        Err(ReserveError::Window)
    ));
}

/// The budget is shared: another channel can take the chunks that one returns.
#[test]
fn the_budget_stops_every_channel_until_any_is_trimmed() {
    let mut arena = Arena::heap(4 * CHUNK_BYTES);
    let (mut first, mut second) = (Channel::new(8), Channel::new(8));
    first.send_chunks(&mut arena, 3);
    second.send_chunks(&mut arena, 1);
    for channel in [&mut first, &mut second] {
        let error = channel.send(&mut arena).expect_err("all memory is in use");
        let ReserveError::Arena(ArenaFull::Budget { budget_bytes }) = error else {
            panic!("{error}");
        };
        assert_eq!(budget_bytes, 4 * CHUNK);
        assert_eq!(arena.used_bytes(), 4 * CHUNK);
    }
    first.log.trim_released(&mut arena, Position(2 * CHUNK));
    assert_eq!(arena.used_bytes(), 2 * CHUNK);
    second.send_chunks(&mut arena, 2);
    assert!(second.send(&mut arena).is_err());
}

#[test]
fn a_system_short_of_memory_may_be_asked_again() {
    let (mut arena, extents_left) = arena_of(32, 1);
    let extent_bytes = 2 << 20;
    let mut channel = Channel::new(32);
    channel.send_chunks(&mut arena, extent_bytes / CHUNK);
    for _ in 0..2 {
        let error = channel.send(&mut arena).expect_err("no further extent");
        let ReserveError::Arena(ArenaFull::Memory {
            committed_bytes, ..
        }) = error
        else {
            panic!("{error}");
        };
        assert_eq!(committed_bytes, extent_bytes);
    }
    extents_left.set(1);
    channel.send_chunks(&mut arena, 1);
    assert_eq!(extents_left.get(), 0);
}

#[test]
fn all_memory_can_be_had_at_once() {
    let (mut arena, extents_left) = arena_of(20, 3);
    arena.commit_all().expect("the system has three extents");
    assert_eq!(extents_left.get(), 0);
    assert_eq!(arena.used_bytes(), 0);
    Channel::new(20).send_chunks(&mut arena, 20);
    assert_eq!(arena.used_bytes(), arena.budget_bytes());

    let (mut arena, _) = arena_of(20, 2);
    assert!(matches!(arena.commit_all(), Err(ArenaFull::Memory { .. })));
}

/// A chunk is freed when it lies before the released position, whole.
#[test]
fn a_chunk_released_but_for_its_last_byte_is_kept() {
    let mut arena = Arena::heap(4 * CHUNK_BYTES);
    let mut channel = Channel::new(4);
    channel.send_chunks(&mut arena, 3);
    channel.log.trim_released(&mut arena, Position(CHUNK - 1));
    assert_eq!(channel.trimmed_chunks(), 0);
    channel.log.trim_released(&mut arena, Position(CHUNK));
    assert_eq!(channel.trimmed_chunks(), 1);
    // An older position that comes late changes nothing.
    channel.log.trim_released(&mut arena, Position(0));
    assert_eq!(channel.trimmed_chunks(), 1);
    // The chunk being filled stays.
    channel.log.trim_released(&mut arena, channel.log.tail());
    channel.log.trim_released(&mut arena, Position(u64::MAX));
    assert_eq!(channel.trimmed_chunks(), 2);
}

// LOG-4
/// Consumed is not enough: a payload is kept until a checkpoint covers it.
#[test]
fn what_was_only_received_is_kept() {
    let mut arena = Arena::heap(4 * CHUNK_BYTES);
    let mut channel = Channel::new(4);
    // SSN 0, 1 | 2, 3 | 4, 5.
    channel.send_chunks(&mut arena, 3);
    let tail = channel.log.tail();
    let covered = [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 1),
        (4, 2),
        ((1 << Ssn::COUNT_BITS) - 1, 2),
    ];
    for (horizon, chunks) in covered {
        channel
            .log
            .trim_below(&mut arena, &Ssn(horizon).into(), tail);
        assert_eq!(channel.trimmed_chunks(), chunks, "horizon {horizon}");
    }
}

// LOG-4
/// Covered is not enough either: the network may still be sending from there.
#[test]
fn what_a_checkpoint_covers_is_kept_until_it_is_released() {
    let mut arena = Arena::heap(4 * CHUNK_BYTES);
    let mut channel = Channel::new(4);
    channel.send_chunks(&mut arena, 3);
    for (released, chunks) in [(0, 0), (CHUNK - 1, 0), (CHUNK, 1), (3 * CHUNK, 2)] {
        let log = &mut channel.log;
        log.trim_below(&mut arena, &Ssn(6).into(), Position(released));
        assert_eq!(channel.trimmed_chunks(), chunks, "released {released}");
    }
}

// LOG-4, STREAM-3
/// A chunk goes when the checkpoint covers it in every stream.
#[test]
fn each_stream_of_a_chunk_decides() {
    let mut arena = Arena::heap(5 * CHUNK_BYTES);
    let mut channel = Channel::new(5);
    let internal = Ssn::first(Stream(2));
    let next = internal.next();
    // Each chunk has room for two.
    for ssn in [Ssn(0), internal, Ssn(1), Ssn(2), next, Ssn(3), Ssn(4)] {
        channel.send_as(&mut arena, ssn).expect("room");
    }
    let tail = channel.log.tail();
    let mut horizon = Frontier::from(Ssn(9));
    channel.log.trim_below(&mut arena, &horizon, tail);
    assert_eq!(channel.trimmed_chunks(), 0, "stream 2 has nothing covered");
    horizon.raise_to(next);
    channel.log.trim_below(&mut arena, &horizon, tail);
    assert_eq!(channel.trimmed_chunks(), 2, "its second message is kept");
    assert_eq!(
        *channel.log.ends_trimmed(),
        Frontier::from(next).max(&Ssn(3).into())
    );
    horizon.raise_to(next.next());
    channel.log.trim_below(&mut arena, &horizon, tail);
    assert_eq!(channel.trimmed_chunks(), 3);
}

// LOG-4
/// Late fragments of an old message do not uncover the younger one that shares
/// their chunk, nor the chunks behind it.
#[test]
fn the_youngest_message_of_a_chunk_decides() {
    let mut arena = Arena::heap(4 * CHUNK_BYTES);
    let mut channel = Channel::new(4);
    for ssn in [0, 9, 1, 1, 10, 11] {
        channel.send_as(&mut arena, Ssn(ssn)).expect("room");
    }
    let tail = channel.log.tail();
    for (horizon, chunks) in [(9, 0), (10, 2)] {
        channel
            .log
            .trim_below(&mut arena, &Ssn(horizon).into(), tail);
        assert_eq!(channel.trimmed_chunks(), chunks, "horizon {horizon}");
    }
}

#[test]
fn a_piece_of_any_message_fits() {
    for bytes in [ChannelLog::PAYLOAD_BYTES_MAX + 1, 5 << 30, usize::MAX] {
        let mut arena = Arena::heap(2 * CHUNK_BYTES);
        let mut channel = Channel::new(2);
        let piece = channel
            .log
            .append(&mut arena, bytes, false, eager(Ssn(0)), |_| {});
        let piece = piece.expect("room");
        assert_eq!(piece.payload_bytes(), ChannelLog::PAYLOAD_BYTES_MAX);
    }
}

#[test]
#[should_panic(expected = "no record holds")]
fn a_whole_record_beyond_a_chunk_is_a_mistake_of_the_caller() {
    let mut arena = Arena::heap(2 * CHUNK_BYTES);
    let bytes = ChannelLog::PAYLOAD_BYTES_MAX + 1;
    let mut log = Channel::new(2).log;
    let _ = log.append(&mut arena, bytes, true, eager(Ssn(0)), |_| {});
}

/// Sends `payload_bytes` lures; the number of the message is their seed.
fn send_lures(channel: &mut Channel, arena: &mut Arena, payload_bytes: usize) {
    let ssn = channel.next_ssn;
    channel.next_ssn = ssn.next();
    let header = RecordHeader {
        extent: payload_bytes as u64,
        ..eager(ssn)
    };
    let log = &mut channel.log;
    let frame = log.append(arena, payload_bytes, true, header, |payload| {
        lure::fill(payload, ssn.0);
    });
    frame.expect("room").publish(arena.region());
}

/// Fills a record with lures and declines it.
fn drop_lures(channel: &mut Channel, arena: &mut Arena, payload_bytes: usize) {
    let log = &mut channel.log;
    let declined = log.append_if(arena, payload_bytes, true, eager(Ssn(0)), |_, payload| {
        lure::fill(payload, 99);
        false
    });
    assert!(declined.expect("room").is_none());
}

fn reader_of(channel: &Channel, arena: &Arena, first_chunk_offset: usize) -> ChannelReader {
    let first = channel.log.first_chunk().expect("the log has begun");
    let region = arena.region().clone();
    ChannelReader::new(region, first_chunk_offset, first).expect("the chunk exists")
}

/// The reader sees the message with this number, and no other.
fn expect_lures(reader: &mut ChannelReader, ssn: u64, payload_bytes: usize) {
    let record = reader.read().expect("the log is sound");
    let record = record.expect("a published record is seen");
    assert_eq!(record.header.ssn, Ssn(ssn));
    assert_eq!(record.payload.len(), payload_bytes);
    assert!(lure::is_filled(record.payload, ssn));
    let next = reader.read().expect("the log is sound");
    assert!(next.is_none(), "never published: {next:?}");
}

/// The payload of a declined record is never read, whatever was cleared before
/// or after.
#[test]
fn a_declined_record_leaves_nothing() {
    // The longest one reaches the end of the chunk.
    for dropped in [0, 64, 1000, 5000, 100_000, ChannelLog::PAYLOAD_BYTES_MAX] {
        for (before, after) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut arena = Arena::heap(2 * CHUNK_BYTES);
            let mut channel = Channel::new(2);
            // The log begins.
            drop_lures(&mut channel, &mut arena, 0);
            let mut reader = reader_of(&channel, &arena, 0);
            if before {
                channel.log.clear_ahead(&arena);
            }
            drop_lures(&mut channel, &mut arena, dropped);
            // A shorter one does not make the longer one forgotten.
            drop_lures(&mut channel, &mut arena, dropped / 4);
            if after {
                channel.log.clear_ahead(&arena);
            }
            assert!(reader.read().expect("the log is sound").is_none());
            for ssn in 0..200 {
                let payload_bytes = ssn as usize % 3 * 50;
                send_lures(&mut channel, &mut arena, payload_bytes);
                expect_lures(&mut reader, ssn, payload_bytes);
                if after && ssn % 8 == 7 {
                    channel.log.clear_ahead(&arena);
                }
            }
        }
    }
}

/// Lines are cleared up to the end of the chunk. The next one in memory may
/// belong to another channel, and so may what is before an arena.
#[test]
fn nothing_but_the_rest_of_the_chunk_is_cleared_ahead() {
    const FIRST_CHUNK_OFFSET: usize = 8192;
    let region = lure::used_region(FIRST_CHUNK_OFFSET, 3);
    let memory = || lure::bytes(&region, 0..region.bytes());
    // From far more lines than are cleared ahead down to the link's alone.
    for lines_left in [100, 65, 64, 63, 17, 16, 15, 2, 1, 0] {
        let mut arena = Arena::new(region.clone(), FIRST_CHUNK_OFFSET, Box::new(|_, _| Ok(())));
        let (mut before, mut channel) = (Channel::new(2), Channel::new(2));
        drop_lures(&mut before, &mut arena, ChannelLog::PAYLOAD_BYTES_MAX);
        // Stale headers on every line of the channel's chunk.
        drop_lures(&mut channel, &mut arena, ChannelLog::PAYLOAD_BYTES_MAX);
        let mut reader = reader_of(&channel, &arena, FIRST_CHUNK_OFFSET);
        let filling = ChannelLog::PAYLOAD_BYTES_MAX - lines_left * 64;
        send_lures(&mut channel, &mut arena, filling);

        let mut expected = memory();
        channel.log.clear_ahead(&arena);
        let chunk = FIRST_CHUNK_OFFSET + CHUNK_BYTES;
        let tail = chunk + channel.log.tail().0 as usize;
        let end = (tail + 4096).min(chunk + CHUNK_BYTES);
        for line in (tail..end).step_by(64) {
            expected[line..line + 8].fill(0);
        }
        assert!(expected == memory(), "with {lines_left} lines left");

        expect_lures(&mut reader, 0, filling);
        for ssn in 1..=lines_left as u64 + 20 {
            send_lures(&mut channel, &mut arena, 0);
            channel.log.clear_ahead(&arena);
            expect_lures(&mut reader, ssn, 0);
        }
    }
}

/// A log that has not begun has no line to clear.
#[test]
fn a_log_without_a_chunk_clears_nothing() {
    let region = lure::used_region(8192, 1);
    let arena = Arena::new(region.clone(), 8192, Box::new(|_, _| Ok(())));
    let before = lure::bytes(&region, 0..region.bytes());
    Channel::new(2).log.clear_ahead(&arena);
    assert!(before == lure::bytes(&region, 0..region.bytes()));
}
