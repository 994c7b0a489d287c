//! The record header of the log (docs/formats/log-format.md).

use crate::input::{Input, comes_back};
use refrain_ring::{
    CHUNK_BYTES, HeaderError, Incarnation, RECORD_VERSION, Rank, RecordHeader, RecordKind, Ssn,
    payload_offset, record_bytes,
};

/// Bytes of a header that carry meaning in memory; the checksum follows.
const SIGNIFICANT_BYTES: usize = 40;
/// The size of a chunk without its header and the place of its link, in bytes.
const RECORD_BYTES_MAX: usize = CHUNK_BYTES - 2 * 64;

/// Checks both directions.
pub fn check(bytes: &[u8]) {
    decode_then_encode(bytes);
    let header = from_input(&mut Input::new(bytes));
    let decoded = RecordHeader::decode(&header.encode());
    comes_back(&decoded, &header, permitted(&header));
}

fn decode_then_encode(bytes: &[u8]) {
    match RecordHeader::decode(bytes) {
        Ok(header) => {
            let encoded = header.encode();
            assert_eq!(encoded[..SIGNIFICANT_BYTES], bytes[..SIGNIFICANT_BYTES]);
            assert_eq!(header.first_word().to_le_bytes(), encoded[..8]);
            assert_ne!(header.first_word(), 0, "a published first word is never 0");
            assert!(
                permitted(&header),
                "accepted what the format forbids: {header:?}"
            );
            assert_eq!(
                RecordHeader::decode(&bytes[..RecordHeader::BYTES]),
                Ok(header)
            );
        }
        Err(HeaderError::Short(found)) => {
            assert_eq!(found, bytes.len());
            assert!(found < RecordHeader::BYTES);
        }
        Err(HeaderError::Version(found)) => {
            assert_eq!(found, bytes[5]);
            assert_ne!(found, RECORD_VERSION);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The format's rules, independent of the decoder.
fn permitted(header: &RecordHeader) -> bool {
    let payload = u128::from(header.payload_bytes);
    let extent = u128::from(header.extent);
    let fits_message = match header.kind {
        RecordKind::Eager => payload <= extent,
        RecordKind::Fragment => payload + extent <= u128::from(u64::MAX),
        RecordKind::Rendezvous | RecordKind::Link => payload == 0,
    };
    let in_log = record_bytes(header.payload_bytes as usize);
    assert_eq!(in_log % 64, 0);
    assert!(
        in_log >= payload_offset(header.payload_bytes as usize) + header.payload_bytes as usize
    );
    fits_message && in_log <= RECORD_BYTES_MAX && header.flags & !RecordHeader::WANT_ACK == 0
}

fn from_input(input: &mut Input<'_>) -> RecordHeader {
    let kind = match input.u8() % 4 {
        0 => RecordKind::Eager,
        1 => RecordKind::Rendezvous,
        2 => RecordKind::Fragment,
        _ => RecordKind::Link,
    };
    // Mostly values near the limits.
    let payload_bytes = match input.u8() % 4 {
        0 => 0,
        1 => u32::from(input.u16()),
        2 => (CHUNK_BYTES as u32)
            .wrapping_sub(320)
            .wrapping_add(u32::from(input.u8())),
        _ => input.u32(),
    };
    RecordHeader {
        payload_bytes,
        kind,
        flags: if input.u8() < 200 {
            RecordHeader::WANT_ACK & input.u16()
        } else {
            input.u16()
        },
        incarnation: Incarnation(input.u32()),
        source: Rank(input.u32()),
        ssn: Ssn(input.u64()),
        context: input.u32(),
        tag: input.u32().cast_signed(),
        extent: if input.u8() < 128 {
            u64::from(payload_bytes).wrapping_add_signed(i64::from(input.u8().cast_signed()))
        } else {
            input.u64()
        },
    }
}

/// One header of each kind, with counters on both sides of 2^32.
pub fn seeds() -> Vec<Vec<u8>> {
    let kinds = [
        (RecordKind::Eager, 8, 0, 8),
        (RecordKind::Eager, 8192, RecordHeader::WANT_ACK, 1 << 33),
        (RecordKind::Rendezvous, 0, 0, 1 << 20),
        (RecordKind::Fragment, 8192, 0, (1 << 32) - 1),
        (RecordKind::Link, 0, 0, 3),
    ];
    let header = |(kind, payload_bytes, flags, extent)| RecordHeader {
        payload_bytes,
        kind,
        flags,
        incarnation: Incarnation(1),
        source: Rank(2),
        ssn: Ssn((1 << 32) + 5),
        context: 3,
        tag: -1,
        extent,
    };
    kinds
        .map(header)
        .iter()
        .map(|header| header.encode().to_vec())
        .collect()
}
