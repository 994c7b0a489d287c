//! Sealed chunks as a rank writes them, and damage to their bytes.

use crate::input::Input;
use refrain_ring::chunk::ChunkReader;
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Incarnation, Position, Rank, RecordHeader, RecordKind, Ssn,
};
use std::sync::LazyLock;

/// The job number of all originals.
pub(crate) const JOB: u64 = 0x00c0_ffee;
/// Number of chunks of each channel.
pub(crate) const CHUNKS: usize = 3;
/// The size of a sector in bytes; a disk writes a sector completely or not at all.
const SECTOR_BYTES: usize = 512;

/// Chunks 0, 1 and 2 from rank 0 to rank 1, then from rank 0 to rank 2, with different bytes in
/// records of the same lengths.
pub(crate) static ORIGINALS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut chunks = chunks_to(Rank(1), 0);
    chunks.extend(chunks_to(Rank(2), 0x5a));
    chunks
});

/// A record: header and payload.
pub(crate) type Original = (RecordHeader, Vec<u8>);

/// The records of the originals, by chunk.
pub(crate) static RECORDS: LazyLock<Vec<Vec<Original>>> = LazyLock::new(|| {
    ORIGINALS
        .iter()
        .map(|chunk| {
            let mut reader = ChunkReader::sealed(chunk).expect("an original");
            let mut records = Vec::new();
            while let Some(record) = reader.next_record().expect("an original") {
                records.push((record.header, record.payload.to_vec()));
            }
            assert!(records.len() > 2);
            records
        })
        .collect()
});

fn header(ssn: u64, message_bytes: u64) -> RecordHeader {
    RecordHeader {
        payload_bytes: 0,
        kind: RecordKind::Eager,
        flags: 0,
        incarnation: Incarnation(0),
        source: Rank(0),
        ssn: Ssn(ssn),
        context: 1,
        tag: 2,
        extent: message_bytes,
    }
}

fn chunks_to(destination: Rank, generation: u8) -> Vec<Vec<u8>> {
    let mut arena = Arena::heap((CHUNKS + 1) * CHUNK_BYTES);
    let mut log = ChannelLog::new(Rank(0), Incarnation(1), destination, u64::MAX);
    for chunk in 0..CHUNKS as u64 {
        for (index, bytes) in [5_u64, 300, 0, 700, 40].into_iter().enumerate() {
            let ssn = chunk * 5 + index as u64;
            let header = header(ssn, bytes);
            let frame = log.append(&mut arena, bytes as usize, true, header, |payload| {
                for (at, byte) in payload.iter_mut().enumerate() {
                    *byte = (at as u8).wrapping_mul(3) ^ ssn as u8 ^ generation;
                }
            });
            frame.expect("room").publish(arena.region());
        }
        // A record that does not fit begins the next chunk.
        let longest = ChannelLog::PAYLOAD_BYTES_MAX;
        drop(log.append_if(&mut arena, longest, true, header(0, 0), |_, _| false));
    }
    let mut chunks = Vec::new();
    while let Some(mut chunk) = log.lend(&arena, Position(u64::MAX)) {
        chunk.seal(JOB);
        chunks.push(chunk.bytes().to_vec());
        log.take_back(&chunk, refrain_ring::LoanEnd::OnDisk);
    }
    assert_eq!(chunks.len(), CHUNKS);
    chunks
}

/// Damages bytes as on the way to a disk and back. Checksums detect accidents, not forgeries, so no
/// damage consists of chosen bytes: up to three flipped bits or one burst of 32 bits (CRC-32
/// detects both in a chunk of this length), a cut, zeros, or sectors of another chunk.
pub(crate) fn accident(original: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = original.to_vec();
    let length = bytes.len();
    match input.u8() % 6 {
        0 => {
            for _ in 0..1 + input.u8() % 3 {
                let bit = usize::from(input.u16()) % (length * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        1 => {
            let at = usize::from(input.u16()) % (length - 4);
            let burst = input.u32().to_le_bytes();
            (0..4).for_each(|byte| bytes[at + byte] ^= burst[byte]);
        }
        2 => bytes.truncate(usize::from(input.u16()) % length),
        3 => {
            let at = usize::from(input.u16()) % length;
            let end = length.min(at + usize::from(input.u16()));
            bytes[at..end].fill(0);
        }
        4 => {
            let other = &ORIGINALS[usize::from(input.u8()) % ORIGINALS.len()];
            let which = input.u32();
            for (sector, old) in other.chunks(SECTOR_BYTES).enumerate() {
                let at = sector * SECTOR_BYTES;
                if which >> (sector % 32) & 1 == 1 && at + old.len() <= length {
                    bytes[at..at + old.len()].copy_from_slice(old);
                }
            }
        }
        _ => {}
    }
    bytes
}
