//! Chunks as bytes: lengths that lie make an error, and copies out of a region
//! stay inside it.

#![cfg(not(loom))]

use refrain_ring::chunk::{CHUNK_HEAD_BYTES, ChunkError, ChunkHeader, ChunkReader, RecordDamage};
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, ChunkId, Incarnation, LoanEnd, Position, Rank, RecordHeader,
    RecordKind, Ssn,
};

const FRAGMENT: RecordHeader = RecordHeader {
    payload_bytes: 0,
    kind: RecordKind::Fragment,
    flags: 0,
    incarnation: Incarnation(0),
    source: Rank(0),
    ssn: Ssn(0),
    context: 0,
    tag: 0,
    extent: 0,
};

/// A sealed chunk with one record of each payload length, and the arena that it
/// lies in as chunk 0.
fn sealed(payloads: &[usize]) -> (Arena, Vec<u8>) {
    let mut arena = Arena::heap(2 * CHUNK_BYTES);
    let mut log = ChannelLog::new(Rank(0), Incarnation(0), Rank(1), u64::MAX);
    for (ssn, bytes) in payloads.iter().enumerate() {
        let header = RecordHeader {
            ssn: Ssn(ssn as u64),
            ..FRAGMENT
        };
        let frame = log.append(&mut arena, *bytes, true, header, |payload| {
            payload.fill(0xee)
        });
        frame.expect("room").publish(arena.region());
    }
    let longest = ChannelLog::PAYLOAD_BYTES_MAX;
    drop(log.append_if(&mut arena, longest, true, FRAGMENT, |_, _| false));
    let mut chunk = log.lend(&arena, Position(u64::MAX)).expect("a full one");
    chunk.seal(5);
    let bytes = chunk.bytes().to_vec();
    log.take_back(&chunk, LoanEnd::OnDisk);
    (arena, bytes)
}

fn with_used_bytes(chunk: &[u8], used_bytes: u32) -> Vec<u8> {
    let header = ChunkHeader::decode(chunk).expect("a chunk");
    let mut seal = header.seal.expect("sealed");
    seal.used_bytes = used_bytes;
    let header = ChunkHeader {
        seal: Some(seal),
        ..header
    };
    [&header.encode(), &chunk[CHUNK_HEAD_BYTES..]].concat()
}

/// Its last record's payload ends within the chunk, its last line does not: a
/// reader that goes behind it leaves the bytes.
#[test]
fn a_chunk_that_does_not_end_with_a_line_is_refused() {
    let (_, chunk) = sealed(&[70]);
    assert_eq!(chunk.len(), 64 + 192);
    for used_bytes in [64 + 134, 64 + 191, 63, 0, CHUNK_BYTES as u32, u32::MAX] {
        let lying = with_used_bytes(&chunk, used_bytes);
        let error = ChunkReader::sealed(&lying).err();
        assert!(
            matches!(error, Some(ChunkError::Length { .. })),
            "{used_bytes}: {error:?}"
        );
    }
    let short = with_used_bytes(&chunk, 64 + 128);
    let mut reader = ChunkReader::sealed(&short).expect("a header that fits");
    let error = reader.next_record().expect_err("it ends too early");
    assert!(matches!(
        error,
        ChunkError::Record {
            what: RecordDamage::Overrun,
            ..
        }
    ));
}

/// Every prefix of a chunk in memory gives whole records, then an end or an
/// error.
#[test]
fn memory_that_is_cut_short_is_read_to_its_end() {
    let (_, chunk) = sealed(&[70, 3, 130]);
    let header = ChunkHeader {
        seal: None,
        ..ChunkHeader::decode(&chunk).expect("a chunk")
    };
    let chunk = [&header.encode()[..], &chunk[CHUNK_HEAD_BYTES..]].concat();
    let ends = [64 + 192, 64 + 192 + 64, 64 + 192 + 64 + 256];
    assert_eq!(chunk.len(), ends[2]);
    for length in CHUNK_HEAD_BYTES..=chunk.len() {
        let mut reader = ChunkReader::in_memory(&chunk[..length]).expect("a header");
        let mut records = 0;
        while let Ok(Some(_)) = reader.next_record() {
            records += 1;
        }
        let whole = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(records, whole, "{length} bytes");
    }
}

#[test]
fn a_chunk_is_copied_out_of_its_region_and_nothing_else_is() {
    let (arena, chunk) = sealed(&[70, 3]);
    let region = arena.region();
    let mut copy = vec![0; chunk.len()];
    assert!(region.copy_chunk(0, ChunkId(0), &mut copy));
    assert_eq!(copy, chunk);
    // The second record is at byte 256.
    assert!(region.copy_chunk(256, ChunkId(0), &mut copy[..64]));
    assert_eq!(copy[..64], chunk[256..320]);
    for (arena_offset, chunk, bytes) in [
        (0, 2, 64),
        (64, 1, 64),
        (0, u32::MAX, 64),
        (usize::MAX, 1, 64),
        (usize::MAX - 63, 0, 64),
        (4, 0, 64),
        (0, 0, CHUNK_BYTES + 8),
    ] {
        let mut to = vec![7; bytes];
        let copied = region.copy_chunk(arena_offset, ChunkId(chunk), &mut to);
        assert!(!copied, "{arena_offset} {chunk} {bytes}");
        assert!(to.iter().all(|byte| *byte == 7));
    }
}
