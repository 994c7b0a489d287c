//! The record header of the log (docs/formats/log-format.md).

use crate::input::{Input, comes_back};
use refrain_ring::{
    CHUNK_BYTES, HeaderError, Incarnation, RECORD_VERSION, Rank, RecordHeader, RecordKind,
    Reference, Ssn, payload_offset, record_bytes,
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
    refer(&header, reference(&mut Input::new(bytes)));
}

/// Mostly near the limits of a chunk.
fn reference(input: &mut Input<'_>) -> [u8; Reference::BYTES] {
    let kind = input.u8();
    let near = CHUNK_BYTES as u64 - 300 + u64::from(input.u16() % 600);
    let (offset, length) = match kind % 4 {
        0 => (input.u64(), input.u32()),
        1 => (near, u32::from(input.u8())),
        2 => (u64::from(input.u8() % 130), near as u32),
        _ => (near - 10_000, 10_000 + u32::from(input.u8())),
    };
    let place = u128::from(input.u32()) << 64 | u128::from(length) << 96;
    (u128::from(offset) | place).to_le_bytes()
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
        RecordKind::Eager if header.flags & RecordHeader::ATTACHED != 0 => {
            let longest = RecordHeader::ATTACHMENT_BYTES_MAX as u128;
            payload > extent && payload - extent <= longest
        }
        RecordKind::Eager => payload <= extent,
        RecordKind::Fragment => payload + extent <= u128::from(u64::MAX),
        RecordKind::Rendezvous | RecordKind::Link => payload == 0,
    };
    let in_log = record_bytes(header.payload_bytes as usize);
    assert_eq!(in_log % 64, 0);
    assert!(
        in_log >= payload_offset(header.payload_bytes as usize) + header.payload_bytes as usize
    );
    let with_payload = matches!(header.kind, RecordKind::Eager | RecordKind::Fragment);
    let has_room = header.payload_bytes as usize == Reference::BYTES;
    let flags = match header.flags & !PLAIN_FLAGS {
        0 => true,
        RecordHeader::ATTACHED => header.kind == RecordKind::Eager,
        other => other == RecordHeader::REFERENCE && with_payload && has_room,
    };
    fits_message && in_log <= RECORD_BYTES_MAX && flags
}

/// The flags that any record may have.
const PLAIN_FLAGS: u16 = RecordHeader::WANT_ACK | RecordHeader::FIRST;

/// A reference in a record with a permitted header is accepted if a chunk and the message can hold
/// its payload.
fn refer(header: &RecordHeader, bytes: [u8; Reference::BYTES]) {
    let header = RecordHeader {
        payload_bytes: Reference::BYTES as u32,
        flags: header.flags & PLAIN_FLAGS | RecordHeader::REFERENCE,
        ..*header
    };
    if !permitted(&header) {
        return;
    }
    let length = u32::from_le_bytes(bytes[12..].try_into().expect("four bytes"));
    let position = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let offset = position % CHUNK_BYTES as u64;
    let resolved = RecordHeader {
        payload_bytes: length,
        flags: header.flags & PLAIN_FLAGS,
        ..header
    };
    let in_chunk = offset >= 64 && offset + u64::from(length) <= CHUNK_BYTES as u64;
    let fits = length > 0 && in_chunk && permitted(&resolved);
    match Reference::of_record(&header, &bytes) {
        Ok((reference, header)) => {
            assert!(fits, "accepted what the format forbids: {reference:?}");
            assert_eq!((reference.encode(), header), (bytes, resolved));
            assert_eq!((reference.position.0, reference.bytes), (position, length));
        }
        Err(error) => assert!(!fits && !error.to_string().is_empty(), "{error}"),
    }
    assert!(Reference::of_record(&header, &bytes[1..]).is_err());
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
            (PLAIN_FLAGS | RecordHeader::ATTACHED) & input.u16()
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
        (RecordKind::Eager, 16, RecordHeader::REFERENCE, 1 << 20),
        (RecordKind::Eager, 10, RecordHeader::ATTACHED, 8),
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
