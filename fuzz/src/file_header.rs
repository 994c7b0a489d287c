//! The header of a segment file (docs/formats/log-format.md).

use crate::input::Input;
use refrain_logging::segment::{Channel, FILE_HEADER_BYTES, FileHeader, FileHeaderError};
use refrain_ring::{Incarnation, Rank};

/// Number of bytes of a header that carry meaning.
const MEANING_BYTES: usize = 64;

/// Checks both directions.
pub fn check(bytes: &[u8]) {
    let mut block = bytes.to_vec();
    if !bytes.is_empty() && bytes.len() <= MEANING_BYTES {
        assert_eq!(
            FileHeader::decode(&block),
            Err(FileHeaderError::Short(bytes.len()))
        );
    }
    block.resize(FILE_HEADER_BYTES.max(bytes.len()), 0);
    decode_then_encode(&block);
    // The same bytes with a valid checksum.
    let check = u64::from(crc32fast::hash(&block[..56]));
    block[56..64].copy_from_slice(&check.to_le_bytes());
    decode_then_encode(&block);
    encode_then_decode(&from_input(&mut Input::new(bytes)));
}

fn decode_then_encode(block: &[u8]) {
    match FileHeader::decode(block) {
        Ok(header) => {
            assert_eq!(header.encode()[..MEANING_BYTES], block[..MEANING_BYTES]);
            assert!((1..=FileHeader::SLOTS_MAX).contains(&header.slots));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn encode_then_decode(header: &FileHeader) {
    let decoded = FileHeader::decode(&header.encode());
    if (1..=FileHeader::SLOTS_MAX).contains(&header.slots) {
        assert_eq!(decoded, Ok(*header));
    } else {
        assert_eq!(decoded, Err(FileHeaderError::Slots(header.slots)));
    }
}

fn from_input(input: &mut Input<'_>) -> FileHeader {
    FileHeader {
        job: input.u64(),
        channel: Channel {
            source: Rank(input.u32()),
            incarnation: Incarnation(input.u32()),
            destination: Rank(input.u32()),
        },
        first_sequence: input.u64(),
        slots: input.u32() >> (input.u8() % 32),
    }
}

/// Headers, cut to the bytes that carry meaning.
pub fn seeds() -> Vec<Vec<u8>> {
    [(0, 1), (1 << 40, 256), (u64::MAX, FileHeader::SLOTS_MAX)]
        .map(|(first_sequence, slots)| FileHeader {
            job: 77,
            channel: Channel {
                source: Rank(3),
                incarnation: Incarnation(1),
                destination: Rank(70_000),
            },
            first_sequence,
            slots,
        })
        .iter()
        .map(|header| header.encode()[..MEANING_BYTES].to_vec())
        .collect()
}
