//! The wire header of the `ofi` fabric (docs/formats/wire-format.md).

use crate::input::{Input, comes_back};
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::network::wire::{
    Kind, WIRE_BYTES, WIRE_VERSION, WireError, WireHeader, nearest, nearest_u16,
};

/// Checks both directions.
pub fn check(bytes: &[u8]) {
    decode_then_encode(bytes);
    let input = &mut Input::new(bytes);
    let header = from_input(input);
    let decoded = WireHeader::decode(&header.encode());
    comes_back(&decoded, &header, permitted(&header));
    low_bits(input.u64(), input.u32());
}

fn decode_then_encode(bytes: &[u8]) {
    match WireHeader::decode(bytes) {
        Ok(header) => {
            assert_eq!(header.encode()[..], bytes[..WIRE_BYTES], "{header:?}");
            assert!(
                permitted(&header),
                "accepted what the format forbids: {header:?}"
            );
            // The decoder ignores bytes after the header.
            assert_eq!(WireHeader::decode(&bytes[..WIRE_BYTES]), Ok(header));
        }
        Err(WireError::Short(found)) => {
            assert_eq!(found, bytes.len());
            assert!(found < WIRE_BYTES);
        }
        Err(WireError::Version(found)) => {
            assert_eq!(found, bytes[1]);
            assert_ne!(found, WIRE_VERSION);
        }
        Err(WireError::Kind(found)) => {
            assert_eq!(found, bytes[0]);
            assert!(!(1..=8).contains(&found), "kind {found} exists");
        }
        Err(WireError::Reserved) => {
            let has_offset = matches!(bytes[0], 2 | 5);
            let reserved = [&bytes[2..4], &bytes[52..56]].concat();
            let offset = if has_offset { &[][..] } else { &bytes[56..64] };
            assert!(reserved.iter().chain(offset).any(|&byte| byte != 0));
        }
        Err(WireError::Held { held, taken }) => assert!(u64::from(held) > taken),
    }
}

/// The format's rules, independent of the decoder.
fn permitted(header: &WireHeader) -> bool {
    let has_offset = matches!(header.kind, Kind::Distant | Kind::Ask);
    u64::from(header.held) <= header.taken && (has_offset || header.offset == 0)
}

/// The wire carries the low bits of counters. They are restored to the nearest number with these
/// bits, at most half of the range away.
fn low_bits(near: u64, low: u32) {
    let number = nearest(near, low);
    assert_eq!(number as u32, low);
    let distance = number.wrapping_sub(near).cast_signed();
    assert!((-(1 << 31)..1 << 31).contains(&distance), "{near} {low}");
    let number = nearest_u16(near, low as u16);
    assert_eq!(number as u16, low as u16);
    let distance = number.wrapping_sub(near).cast_signed();
    assert!((-(1 << 15)..1 << 15).contains(&distance), "{near} {low}");
}

const KINDS: [Kind; 8] = [
    Kind::Frame,
    Kind::Distant,
    Kind::Control,
    Kind::Acknowledge,
    Kind::Ask,
    Kind::Again,
    Kind::Hello,
    Kind::HelloAnswer,
];

fn from_input(input: &mut Input<'_>) -> WireHeader {
    WireHeader {
        kind: KINDS[usize::from(input.u8()) % KINDS.len()],
        source: Rank(input.u32()),
        incarnation: Incarnation(input.u32()),
        to_incarnation: Incarnation(input.u32()),
        job: input.u64(),
        sequence: input.u64(),
        // Mostly small, near `held`, which must not be more.
        taken: input.u64() >> (input.u8() % 64),
        control_taken: input.u64(),
        held: input.u32() >> (input.u8() % 32),
        offset: if input.u8() < 128 { 0 } else { input.u64() },
    }
}

/// One header of each kind, with counters on both sides of 2^32.
pub fn seeds() -> Vec<Vec<u8>> {
    let header = |kind| WireHeader {
        kind,
        source: Rank(2),
        incarnation: Incarnation(1),
        to_incarnation: Incarnation(0),
        job: u64::MAX - 3,
        sequence: (1 << 32) + 5,
        taken: (1 << 32) - 1,
        control_taken: 3,
        held: 5,
        offset: match kind {
            Kind::Distant | Kind::Ask => 1 << 33,
            _ => 0,
        },
    };
    KINDS.map(|kind| header(kind).encode().to_vec()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_decodes() {
        for seed in seeds() {
            WireHeader::decode(&seed).expect("a header of ours");
        }
    }
}
