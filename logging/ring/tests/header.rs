//! The record header as a format: what it looks like, and what is refused.
//!
//! The literal bytes below are the format of version 1. A change that makes one
//! of them fail needs a new `RECORD_VERSION`.

#![cfg(not(loom))]

mod fixed_seed;

use proptest::prelude::*;
use refrain_ring::{
    CHUNK_BYTES, ChannelLog, HeaderError, Incarnation, RECORD_VERSION, Rank, RecordHeader,
    RecordKind, Ssn, payload_offset, record_bytes,
};

const PAYLOAD_BYTES_MAX: u32 = ChannelLog::PAYLOAD_BYTES_MAX as u32;

fn fragment() -> RecordHeader {
    RecordHeader {
        payload_bytes: 0x0001_0203,
        kind: RecordKind::Fragment,
        flags: RecordHeader::WANT_ACK,
        incarnation: Incarnation(0x1112_1314),
        source: Rank(0x2122_2324),
        ssn: Ssn(0x3132_3334_3536_3738),
        context: 0x4142_4344,
        tag: -2,
        extent: 0x5152_5354_5556_5758,
    }
}

#[rustfmt::skip]
const FRAGMENT_BYTES: [u8; RecordHeader::BYTES] = [
    0x03, 0x02, 0x01, 0x00,                         // payload_bytes
    3,                                              // kind
    2,                                              // version
    1, 0,                                           // flags
    0x14, 0x13, 0x12, 0x11,                         // incarnation
    0x24, 0x23, 0x22, 0x21,                         // source
    0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, // ssn
    0x44, 0x43, 0x42, 0x41,                         // context
    0xfe, 0xff, 0xff, 0xff,                         // tag
    0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, // extent
    0, 0, 0, 0, 0, 0, 0, 0,                         // check
];

#[test]
fn the_layout_is_these_bytes() {
    assert_eq!(fragment().encode(), FRAGMENT_BYTES);
    assert_eq!(RecordHeader::decode(&FRAGMENT_BYTES), Ok(fragment()));
}

#[test]
fn the_first_word_is_the_first_eight_bytes() {
    let bytes = FRAGMENT_BYTES.first_chunk().expect("a header is longer");
    assert_eq!(fragment().first_word(), u64::from_le_bytes(*bytes));
}

#[test]
fn kinds_and_flags_have_these_numbers() {
    let numbers = [
        (RecordKind::Eager, 1),
        (RecordKind::Rendezvous, 2),
        (RecordKind::Fragment, 3),
        (RecordKind::Link, 4),
    ];
    for (kind, number) in numbers {
        let header = RecordHeader {
            kind,
            payload_bytes: 0,
            ..fragment()
        };
        assert_eq!(header.encode()[4], number);
        assert_eq!(RecordHeader::decode(&header.encode()), Ok(header));
    }
    assert_eq!(RecordHeader::WANT_ACK, 1);
    assert_eq!(RECORD_VERSION, 2);
}

#[test]
fn a_check_filled_in_by_the_spill_does_not_disturb() {
    let mut bytes = FRAGMENT_BYTES;
    bytes[40..].fill(0xff);
    assert_eq!(RecordHeader::decode(&bytes), Ok(fragment()));
}

#[test]
fn every_shorter_slice_is_refused_with_its_length() {
    for bytes in 0..RecordHeader::BYTES {
        assert_eq!(
            RecordHeader::decode(&FRAGMENT_BYTES[..bytes]),
            Err(HeaderError::Short(bytes))
        );
    }
}

#[test]
fn every_other_version_is_refused() {
    for version in (0..=u8::MAX).filter(|&version| version != RECORD_VERSION) {
        let mut bytes = FRAGMENT_BYTES;
        bytes[5] = version;
        assert_eq!(
            RecordHeader::decode(&bytes),
            Err(HeaderError::Version(version))
        );
    }
}

#[test]
fn every_unknown_kind_is_refused() {
    for kind in (0..=u8::MAX).filter(|kind| !(1..=4).contains(kind)) {
        let mut bytes = FRAGMENT_BYTES;
        bytes[4] = kind;
        assert_eq!(RecordHeader::decode(&bytes), Err(HeaderError::Kind(kind)));
    }
}

#[test]
fn every_unknown_flag_is_refused() {
    // Bit 1 needs the room of a reference; bit 2 may be set.
    for bit in [1].into_iter().chain(3..16) {
        let flags = RecordHeader::WANT_ACK | 1 << bit;
        let mut bytes = FRAGMENT_BYTES;
        bytes[6..8].copy_from_slice(&flags.to_le_bytes());
        assert_eq!(RecordHeader::decode(&bytes), Err(HeaderError::Flags(flags)));
    }
}

#[test]
fn payload_that_does_not_fit_is_refused() {
    use RecordKind::{Eager, Fragment, Link, Rendezvous};
    let cases = [
        // More than the message has.
        (Eager, 1, 0),
        (Eager, 100, 99),
        // Beyond the end of all messages.
        (Fragment, 1, u64::MAX),
        (Fragment, 100, u64::MAX - 99),
        // Kinds that carry none.
        (Rendezvous, 1, 100),
        (Link, 1, 1),
        // More than a chunk holds.
        (Eager, PAYLOAD_BYTES_MAX + 1, u64::MAX),
        (Fragment, PAYLOAD_BYTES_MAX + 1, 0),
        (Fragment, u32::MAX, 0),
    ];
    for (kind, payload_bytes, extent) in cases {
        let header = RecordHeader {
            kind,
            payload_bytes,
            extent,
            ..fragment()
        };
        assert_eq!(
            RecordHeader::decode(&header.encode()),
            Err(HeaderError::Extent {
                payload_bytes,
                offset: extent
            }),
            "{header:?}"
        );
    }
}

#[test]
fn payload_that_just_fits_is_read() {
    use RecordKind::{Eager, Fragment, Link, Rendezvous};
    let cases = [
        (Eager, 0, 0),
        (Eager, 100, 100),
        (Fragment, 100, u64::MAX - 100),
        (Rendezvous, 0, u64::MAX),
        (Link, 0, u64::MAX),
        (Eager, PAYLOAD_BYTES_MAX, u64::MAX),
        (Fragment, PAYLOAD_BYTES_MAX, 0),
    ];
    for (kind, payload_bytes, extent) in cases {
        let header = RecordHeader {
            kind,
            payload_bytes,
            extent,
            ..fragment()
        };
        assert_eq!(RecordHeader::decode(&header.encode()), Ok(header));
    }
}

/// Kinds with payload lengths and extents that fit them.
fn body() -> impl Strategy<Value = (RecordKind, u32, u64)> {
    let payload_bytes = prop_oneof![0..=200u32, 0..=PAYLOAD_BYTES_MAX];
    prop_oneof![
        (payload_bytes.clone(), any::<u64>()).prop_map(|(payload_bytes, extent)| {
            let extent = extent.max(u64::from(payload_bytes));
            (RecordKind::Eager, payload_bytes, extent)
        }),
        any::<u64>().prop_map(|extent| (RecordKind::Rendezvous, 0, extent)),
        (payload_bytes, any::<u64>()).prop_map(|(payload_bytes, offset)| {
            let offset = offset.min(u64::MAX - u64::from(payload_bytes));
            (RecordKind::Fragment, payload_bytes, offset)
        }),
        any::<u64>().prop_map(|chunk| (RecordKind::Link, 0, chunk)),
    ]
}

fn header() -> impl Strategy<Value = RecordHeader> {
    let flags = prop_oneof![Just(0), Just(RecordHeader::WANT_ACK)];
    let names = (any::<u32>(), any::<u32>(), any::<u64>());
    let envelope = (any::<u32>(), any::<i32>());
    (body(), flags, names, envelope).prop_map(
        |((kind, payload_bytes, extent), flags, (incarnation, source, ssn), (context, tag))| {
            RecordHeader {
                payload_bytes,
                kind,
                flags,
                incarnation: Incarnation(incarnation),
                source: Rank(source),
                ssn: Ssn(ssn),
                context,
                tag,
                extent,
            }
        },
    )
}

proptest! {
    #![proptest_config(fixed_seed::cases(2000))]

    #[test]
    fn what_is_encoded_is_decoded(header in header(), behind in prop::collection::vec(any::<u8>(), 0..32)) {
        prop_assert_ne!(header.first_word(), 0, "0 means that nothing is published");
        let mut bytes = header.encode().to_vec();
        bytes.extend(behind);
        prop_assert_eq!(RecordHeader::decode(&bytes), Ok(header));
    }

    /// Damage is refused or read as another valid header; it never panics, and
    /// a decoded header can always be written again.
    #[test]
    fn damage_never_goes_further(header in header(), at in 0..40usize, damage in 1..=u8::MAX) {
        let mut bytes = header.encode();
        bytes[at] ^= damage;
        if let Ok(other) = RecordHeader::decode(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
            prop_assert!(other.payload_bytes <= PAYLOAD_BYTES_MAX);
        }
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(header) = RecordHeader::decode(&bytes) {
            prop_assert_eq!(&header.encode()[..40], &bytes[..40]);
        }
    }

    #[test]
    fn a_record_is_whole_lines_with_its_payload_aligned(payload_bytes in prop_oneof![0..300usize, 0..CHUNK_BYTES]) {
        let offset = payload_offset(payload_bytes);
        let record = record_bytes(payload_bytes);
        prop_assert!(offset >= RecordHeader::BYTES && offset + payload_bytes <= record);
        prop_assert_eq!(record % 64, 0);
        prop_assert!(record - offset - payload_bytes < 64, "no line is wasted");
        // Short payloads share the header's line, others begin on one.
        prop_assert_eq!(offset, if payload_bytes <= 16 { 48 } else { 64 });
    }
}
