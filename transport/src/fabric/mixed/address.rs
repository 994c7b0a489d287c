//! The address of a rank behind two fabrics: both addresses in one.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | version, 1 |
//! | 1 | bit 0: there is a near part, bit 1: a far part |
//! | 2..4 | length of the near part, little endian |
//! | 4..6 | length of the far part, little endian |
//! | 6.. | the near part, the far part |
//!
//! Memory goes with the near part: it cannot be passed to another host.

use crate::fabric::Address;
use thiserror::Error;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 6;
const NEAR: u8 = 1;
const FAR: u8 = 2;

/// Why bytes are not a pair of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PairError {
    /// Written by another version, or no pair.
    #[error("its address has a format that this version does not know")]
    Version,
    /// Lengths and bytes do not fit together.
    #[error("its address is damaged")]
    Damaged,
}

/// How a rank is reached from its own host, and from others.
#[derive(Clone, Debug)]
pub struct Pair {
    /// From its own host, with its memory.
    pub near: Option<Address>,
    /// From other hosts.
    pub far: Option<Address>,
}

impl Pair {
    /// Encodes both as one address.
    ///
    /// # Panics
    /// For parts above 64 KiB, and a far part with memory: no fabric has such a part.
    pub fn encode(self) -> Address {
        let flags = (u8::from(self.near.is_some()) * NEAR) | (u8::from(self.far.is_some()) * FAR);
        let near = self.near.unwrap_or_default();
        let far = self.far.unwrap_or_default();
        assert!(
            far.memory.is_none(),
            "the address of a far fabric carries no memory"
        );
        let length = |part: &Address| {
            let length = u16::try_from(part.bytes.len());
            length.expect("addresses are short").to_le_bytes()
        };
        let mut bytes = vec![VERSION, flags];
        for part in [&length(&near)[..], &length(&far), &near.bytes, &far.bytes] {
            bytes.extend_from_slice(part);
        }
        let memory = near.memory;
        Address { bytes, memory }
    }

    /// Decodes the two addresses.
    ///
    /// # Errors
    /// When it is not one that this version writes.
    pub fn decode(address: &Address) -> Result<Self, PairError> {
        let bytes = &address.bytes;
        if bytes.first() != Some(&VERSION) {
            return Err(PairError::Version);
        }
        let split = bytes.split_at_checked(HEAD_BYTES);
        let (head, parts) = split.ok_or(PairError::Damaged)?;
        let length = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
        let (flags, near_bytes, far_bytes) = (head[1], length(2), length(4));
        let absent_but_long = (flags & NEAR == 0 && near_bytes > 0)
            || (flags & FAR == 0 && far_bytes > 0)
            || (flags & NEAR == 0 && address.memory.is_some());
        if flags & !(NEAR | FAR) != 0 || absent_but_long || parts.len() != near_bytes + far_bytes {
            return Err(PairError::Damaged);
        }
        let (near, far) = parts.split_at(near_bytes);
        let part = |flag: u8, bytes: &[u8], memory| {
            let bytes = bytes.to_vec();
            (flags & flag != 0).then_some(Address { bytes, memory })
        };
        Ok(Self {
            near: part(NEAR, near, address.memory.clone()),
            far: part(FAR, far, None),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn part(bytes: Option<Vec<u8>>) -> Option<Address> {
        bytes.map(|bytes| Address {
            bytes,
            memory: None,
        })
    }

    fn bytes(part: Option<Address>) -> Option<Vec<u8>> {
        part.map(|address| address.bytes)
    }

    fn is_refused(bytes: Vec<u8>) -> bool {
        Pair::decode(&part(Some(bytes)).expect("just given")).is_err()
    }

    fn any_part() -> impl Strategy<Value = Option<Vec<u8>>> {
        prop::option::of(prop::collection::vec(any::<u8>(), 0..80))
    }

    proptest! {
        #[test]
        fn what_is_joined_comes_apart_again(near in any_part(), far in any_part()) {
            let joined = Pair { near: part(near.clone()), far: part(far.clone()) }.encode();
            let pair = Pair::decode(&joined).unwrap();
            prop_assert_eq!(bytes(pair.near), near);
            prop_assert_eq!(bytes(pair.far), far);
        }

        #[test]
        fn a_pair_cut_short_or_too_long_is_refused(
            near in any_part(),
            far in any_part(),
            cut in any::<prop::sample::Index>(),
        ) {
            let joined = Pair { near: part(near), far: part(far) }.encode();
            let shorter = joined.bytes[..cut.index(joined.bytes.len())].to_vec();
            prop_assert!(is_refused(shorter));
            let longer = [&joined.bytes[..], &[0]].concat();
            prop_assert!(is_refused(longer));
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Pair::decode(&Address { bytes, memory: None });
        }
    }

    #[test]
    fn memory_goes_with_the_near_part() {
        let memory = std::fs::File::open("/dev/null").unwrap();
        let near = Address {
            bytes: vec![7],
            memory: Some(Arc::new(memory.into())),
        };
        let joined = Pair {
            near: Some(near),
            far: part(Some(vec![8])),
        }
        .encode();
        let pair = Pair::decode(&joined).unwrap();
        assert!(pair.near.unwrap().memory.is_some());
        assert!(pair.far.unwrap().memory.is_none());
    }

    #[test]
    fn each_field_is_checked() {
        let good = Pair {
            near: part(Some(vec![1, 2, 3])),
            far: part(Some(vec![4])),
        }
        .encode();
        for (at, value, expected) in [
            (0, 2, PairError::Version),
            (1, 7, PairError::Damaged),
            (1, NEAR, PairError::Damaged),
            (1, FAR, PairError::Damaged),
            (3, 1, PairError::Damaged),
            (4, 2, PairError::Damaged),
        ] {
            let mut bytes = good.bytes.clone();
            bytes[at] = value;
            let damaged = Address {
                bytes,
                memory: None,
            };
            assert_eq!(
                Pair::decode(&damaged).unwrap_err(),
                expected,
                "byte {at} is {value}"
            );
        }
    }
}
