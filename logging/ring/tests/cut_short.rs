//! Truncated chunks: they give complete records, then
//! nothing or an error. LOG-2

#![cfg(not(loom))]

use refrain_ring::chunk::{ChunkError, ChunkHeader, ChunkReader, Seal};
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Incarnation, Rank, RecordHeader, RecordKind, Ssn,
};

const LENGTHS: [usize; 7] = [0, 70, 17, 3000, 16, 64, 1];

/// A chunk with a few records, and more to fill it.
fn chunk_bytes(is_sealed: bool) -> Vec<u8> {
    let mut arena = Arena::heap(2 * CHUNK_BYTES);
    let mut log = ChannelLog::new(Rank(1), Incarnation(2), Rank(3), u64::MAX);
    let longest = ChannelLog::PAYLOAD_BYTES_MAX;
    for bytes in LENGTHS.into_iter().chain([longest]) {
        let header = RecordHeader {
            payload_bytes: 0,
            kind: RecordKind::Fragment,
            flags: 0,
            incarnation: Incarnation(0),
            source: Rank(0),
            ssn: Ssn(bytes as u64),
            context: 0,
            tag: 0,
            extent: 0,
        };
        let fill = |payload: &mut [u8]| payload.fill(bytes as u8);
        let frame = log.append(&mut arena, bytes, true, header, fill);
        frame.expect("room").publish(arena.region());
    }
    let mut chunk = log.lend(&arena, log.tail()).expect("a complete chunk");
    if is_sealed {
        chunk.seal(7);
    }
    chunk.chunk_bytes()[..chunk.used_bytes() + 64].to_vec()
}

fn count(mut reader: ChunkReader<'_>) -> (usize, Option<ChunkError>) {
    let mut lengths = Vec::new();
    let error = loop {
        match reader.next_record() {
            Ok(Some(record)) => lengths.push(record.payload.len()),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    assert!(
        LENGTHS.starts_with(&lengths),
        "whole records, from the first on"
    );
    (lengths.len(), error)
}

#[test]
fn memory_that_is_cut_anywhere_gives_the_records_before() {
    let bytes = chunk_bytes(false);
    let mut counts = Vec::new();
    for length in 64..=bytes.len() {
        let reader = ChunkReader::in_memory(&bytes[..length]);
        counts.push(count(reader.expect("the header is there")).0);
    }
    assert!(counts.is_sorted());
    assert_eq!(counts.last(), Some(&LENGTHS.len()));
}

#[test]
fn a_sealed_chunk_that_is_cut_is_refused() {
    let bytes = chunk_bytes(true);
    for length in 0..bytes.len() - 64 {
        let cut = ChunkReader::sealed(&bytes[..length]);
        assert!(matches!(cut, Err(ChunkError::Length { .. })), "{length}");
    }
    let (records, error) = count(ChunkReader::sealed(&bytes).expect("whole"));
    assert_eq!((records, error), (LENGTHS.len(), None));
}

/// A header whose checksum is correct, and whose length ends inside a record or
/// behind its payload: no record is cut, and nothing is read beyond.
#[test]
fn a_sealed_length_that_ends_in_a_record_is_an_error() {
    let mut bytes = chunk_bytes(true);
    let header = ChunkHeader::decode(&bytes).expect("whole");
    let seal = header.seal.expect("sealed");
    for used_bytes in 64..seal.used_bytes {
        let seal = Some(Seal { used_bytes, ..seal });
        bytes[..64].copy_from_slice(&ChunkHeader { seal, ..header }.encode());
        match ChunkReader::sealed(&bytes) {
            Err(error) => assert!(matches!(error, ChunkError::Length { .. }), "{error}"),
            Ok(reader) => {
                let (records, error) = count(reader);
                assert!(records < LENGTHS.len() && error.is_some(), "{used_bytes}");
            }
        }
    }
}
