//! A reader over damaged memory: every step gives an error, nothing, or
//! something that looks like a record; none panics, and an error stays where it
//! is until the memory changes.
//!
//! The damage is made as follows: a record's payload is filled with the damaged
//! lines, and its header is replaced by one without payload, so that the reader
//! takes the payload's first line for the next record.

#![cfg(not(loom))]

mod fixed_seed;

use proptest::prelude::*;
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, ChannelReader, ChunkId, Incarnation, Position, Rank, ReadError,
    RecordHeader, RecordKind, Ssn,
};

const LINE_BYTES: usize = 64;
/// Lines of damage: the payload of the longest record.
const LINES: usize = ChannelLog::PAYLOAD_BYTES_MAX / LINE_BYTES;

fn header(kind: RecordKind, payload_bytes: u32, extent: u64) -> RecordHeader {
    RecordHeader {
        payload_bytes,
        kind,
        flags: 0,
        incarnation: Incarnation(0),
        source: Rank(0),
        ssn: Ssn(0),
        context: 0,
        tag: 0,
        extent,
    }
}

/// A reader in chunk 0 at the line with index `first` of `LINES` lines of `damage`; the lines
/// before it hold empty records. The other chunks are damaged likewise.
fn reader_of(
    chunks: usize,
    first: usize,
    damage: impl Fn(usize) -> [u8; LINE_BYTES],
) -> ChannelReader {
    let empty = line_of(header(RecordKind::Eager, 0, 0));
    let mut arena = Arena::heap(chunks * CHUNK_BYTES);
    let region = arena.region().clone();
    let mut log = ChannelLog::new(Rank(0), Incarnation(0), Rank(1), 3 * CHUNK_BYTES as u64);
    for _ in 0..chunks {
        let payload_bytes = ChannelLog::PAYLOAD_BYTES_MAX;
        let whole = header(RecordKind::Eager, 0, payload_bytes as u64);
        let frame = log.append(&mut arena, payload_bytes, true, whole, |payload| {
            for (index, line) in payload.chunks_exact_mut(LINE_BYTES).enumerate() {
                line.copy_from_slice(&if index < first { empty } else { damage(index) });
            }
        });
        frame.expect("room").publish(&region);
    }
    for (index, word) in empty[..RecordHeader::BYTES]
        .as_chunks::<8>()
        .0
        .iter()
        .enumerate()
    {
        region.store_word(LINE_BYTES + index * 8, u64::from_le_bytes(*word));
    }
    let mut reader = ChannelReader::new(region, 0, ChunkId(0)).expect("chunk 0 exists");
    for _ in 0..=first {
        assert!(reader.read().expect("not damaged").is_some());
    }
    reader
}

fn line_of(header: RecordHeader) -> [u8; LINE_BYTES] {
    let mut line = [0; LINE_BYTES];
    line[..RecordHeader::BYTES].copy_from_slice(&header.encode());
    line
}

/// The reader at the line with this index.
fn reader_at(index: usize, damage: RecordHeader) -> ChannelReader {
    reader_of(3, index, |_| line_of(damage))
}

fn assert_stuck(reader: &mut ChannelReader, error: ReadError) {
    let position = reader.position();
    for _ in 0..3 {
        assert_eq!(reader.read().map(|record| record.is_some()), Err(error));
        assert_eq!(reader.position(), position);
    }
}

#[test]
fn a_link_out_of_the_arena_is_refused() {
    for chunk in [3, u64::from(u32::MAX) + 1, u64::MAX - 1] {
        let mut reader = reader_at(0, header(RecordKind::Link, 0, chunk));
        assert_stuck(&mut reader, ReadError::Link(chunk));
    }
}

#[test]
fn a_log_that_rests_is_not_read_further() {
    let mut reader = reader_at(0, header(RecordKind::Link, 0, u64::MAX));
    let next = Position((CHUNK_BYTES + LINE_BYTES) as u64);
    assert_stuck(&mut reader, ReadError::Resting(next));
}

#[test]
fn a_first_chunk_out_of_the_arena_is_refused() {
    let region = Arena::heap(2 * CHUNK_BYTES).region().clone();
    for (offset, chunk) in [(0, 2), (0, u32::MAX), (64, 1), (4 * CHUNK_BYTES, 0)] {
        let reader = ChannelReader::new(region.clone(), offset, ChunkId(chunk));
        assert_eq!(reader.err(), Some(ReadError::Link(u64::from(chunk))));
    }
}

/// Appends and publishes a record without payload.
fn append(log: &mut ChannelLog, arena: &mut Arena, header: RecordHeader) {
    let frame = log.append(arena, 0, true, header, |_| {});
    frame.expect("room").publish(arena.region());
}

/// A log of one record, in the chunk that is next.
fn one_record(arena: &mut Arena, incarnation: u32, destination: u32) {
    let (source, incarnation) = (Rank(0), Incarnation(incarnation));
    let mut log = ChannelLog::new(source, incarnation, Rank(destination), 0);
    append(&mut log, arena, header(RecordKind::Eager, 0, 0));
}

/// Chunk headers name the log and the position: a link must lead forward in the
/// same log.
#[test]
fn links_to_other_logs_and_back_are_refused() {
    for (life, destination) in [(0, 2), (1, 1), (0, 1)] {
        for chunk in [0, 1, 2] {
            let mut arena = Arena::heap(3 * CHUNK_BYTES);
            let region = arena.region().clone();
            let mut log = ChannelLog::new(Rank(0), Incarnation(0), Rank(1), 0);
            append(&mut log, &mut arena, header(RecordKind::Eager, 0, 0));
            one_record(&mut arena, life, destination);
            append(&mut log, &mut arena, header(RecordKind::Link, 0, chunk));
            let mut reader = ChannelReader::new(region, 0, ChunkId(0)).expect("chunk 0");
            assert!(reader.read().expect("not damaged").is_some());
            assert_stuck(&mut reader, ReadError::Link(chunk));
        }
    }
}

/// Where no log was ever written no reader begins.
#[test]
fn an_empty_first_chunk_is_refused() {
    let region = Arena::heap(2 * CHUNK_BYTES).region().clone();
    let reader = ChannelReader::new(region, 0, ChunkId(1));
    assert_eq!(reader.err(), Some(ReadError::Link(1)));
}

/// A link at the very start of a chunk would make readers run in circles, so
/// it is no link; asking again does not get past it.
#[test]
fn links_that_lead_to_links_are_refused() {
    let mut arena = Arena::heap(2 * CHUNK_BYTES);
    let region = arena.region().clone();
    let mut log = ChannelLog::new(Rank(0), Incarnation(0), Rank(1), 0);
    append(&mut log, &mut arena, header(RecordKind::Link, 0, 0));
    let mut reader = ChannelReader::new(region, 0, ChunkId(0)).expect("chunk 0 exists");
    assert_stuck(&mut reader, ReadError::Link(0));
}

#[test]
fn a_record_beyond_its_chunk_is_refused() {
    for (lines_left, payload_bytes) in [(1, 65), (3, 1000), (3, 193), (LINES - 1, 261_900)] {
        let mut reader = reader_at(
            LINES - lines_left,
            header(RecordKind::Fragment, payload_bytes, 0),
        );
        assert_stuck(&mut reader, ReadError::Overrun(payload_bytes));
    }
}

/// What ends with its chunk leaves no place for a link: going on behind it
/// would run out of the chunk, at last out of the region.
#[test]
fn a_record_in_the_place_of_the_link_is_refused() {
    let mut reader = reader_at(LINES - 1, header(RecordKind::Fragment, 64, 0));
    assert_stuck(&mut reader, ReadError::Overrun(64));
}

fn damaged_line() -> impl Strategy<Value = [u8; LINE_BYTES]> {
    let kind = prop_oneof![
        1 => Just(RecordKind::Eager),
        1 => Just(RecordKind::Rendezvous),
        6 => Just(RecordKind::Fragment),
        1 => Just(RecordKind::Link),
    ];
    let sizes = prop_oneof![6 => 0..300u32, 1 => 0..CHUNK_BYTES as u32, 1 => any::<u32>()];
    let extents = prop_oneof![0..4u64, any::<u64>()];
    let valid = (kind, sizes, extents)
        .prop_map(|(kind, payload_bytes, extent)| line_of(header(kind, payload_bytes, extent)));
    prop_oneof![
        8 => valid,
        1 => any::<[u8; LINE_BYTES]>(),
        1 => Just([0; LINE_BYTES]),
    ]
}

proptest! {
    #![proptest_config(fixed_seed::cases(300))]

    #[test]
    fn no_damage_makes_a_reader_panic(
        lines in prop::collection::vec(damaged_line(), 1..40),
        chunks in 1..=3usize,
        skip in prop_oneof![0..40usize, LINES - 20..LINES],
    ) {
        let mut reader = reader_of(chunks, skip, |index| lines[index % lines.len()]);
        let mut read = || reader.read().map(|record| record.map(|record| record.header));
        let last = (0..200).map(|_| read()).find(|seen| !matches!(seen, Ok(Some(_))));
        if let Some(last) = last {
            prop_assert_eq!(read(), last, "an error or an end stays");
        }
    }
}
