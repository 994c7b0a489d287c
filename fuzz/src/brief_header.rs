//! The short header of the `ofi` fabric (docs/formats/wire-format.md).

use crate::input::Input;
use refrain_ring::{Incarnation, Rank, Ssn};
use refrain_transport::fabric::network::wire::{
    BRIEF_BYTES, BRIEF_KIND, BriefHeader, WIRE_VERSION, WireError, WireHeader, connection_key,
};

/// Checks both directions.
pub fn check(bytes: &[u8]) {
    decode_then_encode(bytes);
    encode_then_decode(&from_input(&mut Input::new(bytes)));
}

fn decode_then_encode(bytes: &[u8]) {
    match BriefHeader::decode(bytes) {
        Ok(header) => {
            assert_eq!(header.encode()[..], bytes[..BRIEF_BYTES], "{header:?}");
            // The decoder ignores bytes after the header.
            assert_eq!(BriefHeader::decode(&bytes[..BRIEF_BYTES]), Ok(header));
            assert!(
                WireHeader::decode(bytes).is_err(),
                "one message, two meanings: {bytes:?}"
            );
        }
        Err(WireError::Short(found)) => {
            assert_eq!(found, bytes.len());
            assert!(found < BRIEF_BYTES);
        }
        Err(WireError::Kind(found)) => {
            assert_eq!(found, bytes[0]);
            assert_ne!(found, BRIEF_KIND);
        }
        Err(WireError::Version(found)) => {
            assert_eq!(found, bytes[1]);
            assert_ne!(found, WIRE_VERSION);
        }
        Err(error @ (WireError::Reserved | WireError::Held { .. })) => {
            panic!("no rule of a short header: {error}")
        }
    }
}

fn encode_then_decode(header: &BriefHeader) {
    assert_eq!(BriefHeader::decode(&header.encode()), Ok(*header));
}

fn from_input(input: &mut Input<'_>) -> BriefHeader {
    BriefHeader {
        flags: input.u8(),
        attached_bytes: input.u8(),
        source: Rank(input.u32()),
        key: input.u64(),
        sequence: input.u32(),
        taken: input.u32(),
        control_taken: input.u16(),
        held: input.u16(),
        ssn: Ssn(input.u64()),
        context: input.u32(),
        tag: input.u32().cast_signed(),
    }
}

/// With and without a payload, with counters on both sides of 2^32.
pub fn seeds() -> Vec<Vec<u8>> {
    let header = |ssn| BriefHeader {
        flags: 1,
        attached_bytes: 0,
        source: Rank(2),
        key: connection_key(u64::MAX - 3, Incarnation(1), Incarnation(0)),
        sequence: u32::MAX,
        taken: 5,
        control_taken: u16::MAX,
        held: 3,
        ssn: Ssn(ssn),
        context: 3,
        tag: -1,
    };
    vec![
        header((1 << 32) + 5).encode().to_vec(),
        [&header((1 << 32) - 1).encode()[..], b"payload"].concat(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_decodes() {
        for seed in seeds() {
            BriefHeader::decode(&seed).expect("a header of ours");
        }
    }
}
