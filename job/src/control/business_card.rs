//! The business card of a rank, and its bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | version, 2 |
//! | 1..25 | the host: boot id, network namespace, agent |
//! | 25..27 | length of the part for its own host, little endian |
//! | 27..29 | length of the part for other hosts, little endian |
//! | 29..33 | the incarnation, little endian |
//! | 33.. | both parts; an empty part has no bytes |

use super::host::HostIdentity;
use refrain_ring::Incarnation;
use thiserror::Error;

const VERSION: u8 = 2;
const HEAD_BYTES: usize = 1 + HostIdentity::BYTES + 8;

/// Error of decoding a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BusinessCardError {
    /// The card is of another version.
    #[error(
        "it is of version {0}, this program writes {VERSION}: build all ranks from the same refrain"
    )]
    Version(u8),
    /// Lengths and bytes do not match.
    #[error("it is damaged")]
    Damaged,
}

/// The host of a rank, and its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusinessCard {
    /// The incarnation that the card describes.
    pub incarnation: Incarnation,
    /// The host of the rank.
    pub host: HostIdentity,
    /// The address for ranks on the same host; the segment's descriptor is passed with the card.
    pub near: Vec<u8>,
    /// The address for ranks on other hosts, or (`--fabric verbs`, `ofi:…`) for all ranks.
    pub far: Vec<u8>,
}

impl BusinessCard {
    /// Encodes the card.
    ///
    /// # Panics
    /// If an address is longer than 64 KiB: no fabric has such an address.
    pub fn encode(&self) -> Vec<u8> {
        let length = |part: &[u8]| {
            u16::try_from(part.len())
                .expect("addresses are short")
                .to_le_bytes()
        };
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.host.encode());
        bytes.extend_from_slice(&length(&self.near));
        bytes.extend_from_slice(&length(&self.far));
        bytes.extend_from_slice(&self.incarnation.0.to_le_bytes());
        bytes.extend_from_slice(&self.near);
        bytes.extend_from_slice(&self.far);
        bytes
    }

    /// Decodes a card.
    ///
    /// # Errors
    /// The bytes are not a card of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, BusinessCardError> {
        match bytes.first() {
            Some(&VERSION) => {}
            Some(&version) => return Err(BusinessCardError::Version(version)),
            None => return Err(BusinessCardError::Damaged),
        }
        let (head, parts) = bytes
            .split_at_checked(HEAD_BYTES)
            .ok_or(BusinessCardError::Damaged)?;
        let (host, lengths) = head[1..]
            .split_first_chunk::<{ HostIdentity::BYTES }>()
            .ok_or(BusinessCardError::Damaged)?;
        let length = |at: usize| usize::from(u16::from_le_bytes([lengths[at], lengths[at + 1]]));
        if parts.len() != length(0) + length(2) {
            return Err(BusinessCardError::Damaged);
        }
        let (near, far) = parts.split_at(length(0));
        let life = [lengths[4], lengths[5], lengths[6], lengths[7]];
        Ok(Self {
            incarnation: Incarnation(u32::from_le_bytes(life)),
            host: HostIdentity::decode(host),
            near: near.to_vec(),
            far: far.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn card() -> impl Strategy<Value = BusinessCard> {
        let part = || prop::collection::vec(any::<u8>(), 0..300);
        (
            any::<u32>(),
            any::<[u8; HostIdentity::BYTES]>(),
            part(),
            part(),
        )
            .prop_map(|(life, host, near, far)| BusinessCard {
                incarnation: Incarnation(life),
                host: HostIdentity::decode(&host),
                near,
                far,
            })
    }

    proptest! {
        #[test]
        fn cards_come_back_as_they_were(card in card()) {
            prop_assert_eq!(BusinessCard::decode(&card.encode()), Ok(card));
        }

        #[test]
        fn a_card_of_another_length_is_refused(card in card(), cut in any::<prop::sample::Index>()) {
            let bytes = card.encode();
            let short = &bytes[..cut.index(bytes.len())];
            prop_assert_eq!(BusinessCard::decode(short), Err(BusinessCardError::Damaged));
            let long = [&bytes[..], &[0]].concat();
            prop_assert_eq!(BusinessCard::decode(&long), Err(BusinessCardError::Damaged));
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = BusinessCard::decode(&bytes);
        }
    }

    #[test]
    fn another_version_is_named() {
        let error = BusinessCard::decode(&[9; 40]).unwrap_err();
        assert_eq!(error, BusinessCardError::Version(9));
        assert!(error.to_string().contains("same refrain"));
    }
}
