//! Chunks read back, from disk or from a dead rank's memory
//! (docs/formats/log-format.md).

use crate::input::Input;
use crate::originals::{ORIGINALS, RECORDS, accident};
use refrain_ring::chunk::{CHUNK_HEAD_BYTES, ChunkError, ChunkHeader, ChunkReader};
use refrain_ring::{CHUNK_BYTES, RecordHeader, payload_offset, record_bytes};

/// Checks any bytes, the same bytes with valid checksums, or a damaged original.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.u8() % 3 {
        0 => read_both_ways(bytes.get(1..).unwrap_or_default()),
        1 => read_both_ways(&with_checksums(bytes.get(1..).unwrap_or_default())),
        _ => read_after_accident(&mut input),
    }
}

fn read_both_ways(bytes: &[u8]) {
    walk(ChunkReader::sealed(bytes), bytes);
    walk(ChunkReader::in_memory(bytes), bytes);
}

/// Checks that records follow each other without gaps, and that nothing comes after the end or an
/// error. Returns whether the chunk was read to its end.
fn walk(reader: Result<ChunkReader<'_>, ChunkError>, bytes: &[u8]) -> bool {
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let mut at = CHUNK_HEAD_BYTES;
    loop {
        assert_eq!(reader.offset(), at);
        match reader.next_record() {
            Ok(Some(record)) => {
                assert_eq!(record.offset, at);
                assert_eq!(record.payload.len(), record.header.payload_bytes as usize);
                let begin = at + payload_offset(record.payload.len());
                assert_eq!(record.payload, &bytes[begin..begin + record.payload.len()]);
                at += record_bytes(record.payload.len());
                assert!(at <= bytes.len() && at <= CHUNK_BYTES - 64);
            }
            end => {
                assert!(matches!(reader.next_record(), Ok(None)));
                return end.is_ok();
            }
        }
    }
}

/// The bytes as a chunk with valid checksums, where its lengths permit, so that the code after the
/// checksum tests runs, too.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = bytes.to_vec();
    if chunk.len() < CHUNK_HEAD_BYTES {
        return chunk;
    }
    let mut at = CHUNK_HEAD_BYTES;
    let mut checks = Vec::new();
    while let Some(head) = chunk.get(at..at + RecordHeader::BYTES) {
        let payload_bytes = u32::from_le_bytes(head[..4].try_into().expect("four")) as usize;
        let begin = at + payload_offset(payload_bytes);
        let payload = chunk.get(begin..begin + payload_bytes).unwrap_or_default();
        let words = [crc32fast::hash(payload), crc32fast::hash(&head[..40])];
        let check = words.map(u32::to_le_bytes).concat();
        chunk[at + 40..at + 48].copy_from_slice(&check);
        checks.extend(check);
        at += record_bytes(payload_bytes);
    }
    chunk[56..60].copy_from_slice(&crc32fast::hash(&checks).to_le_bytes());
    let check = crc32fast::hash(&chunk[..60]);
    chunk[60..64].copy_from_slice(&check.to_le_bytes());
    chunk
}

/// Checks that a chunk that is read to its end is an original, and that records read before damage
/// are records of originals.
fn read_after_accident(input: &mut Input<'_>) {
    let which = usize::from(input.u8()) % ORIGINALS.len();
    let bytes = accident(&ORIGINALS[which], input);
    let is_whole = walk(ChunkReader::sealed(&bytes), &bytes);
    let Ok(mut reader) = ChunkReader::sealed(&bytes) else {
        return;
    };
    let mut read = Vec::new();
    while let Ok(Some(record)) = reader.next_record() {
        read.push((record.header, record.payload.to_vec()));
    }
    let mut originals = RECORDS.iter().flatten();
    assert!(
        read.iter()
            .all(|record| originals.clone().any(|original| original == record)),
        "a record that was never written"
    );
    assert!(
        !is_whole || originals.next().is_some() && RECORDS.contains(&read),
        "a chunk that was never written"
    );
    let header = ChunkHeader::decode(&bytes).expect("the reader has decoded it");
    assert_eq!(header.encode()[..], bytes[..CHUNK_HEAD_BYTES]);
}

/// Originals without damage, and one accident of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let raw = |mode: u8| [&[mode][..], &ORIGINALS[1]].concat();
    let accidents = (0..6).map(|kind| vec![2, 1, kind, 2, 70, 1, 3, 90, 0]);
    [raw(0), raw(1)].into_iter().chain(accidents).collect()
}
