//! The address that a rank publishes for its peers on a network.
//!
//! Format (little endian): version ([`ADDRESS_VERSION`], 1 byte), length of the provider's name (1
//! byte), length of the endpoint's address (2 bytes), rank (4), incarnation (4), job (8), longest
//! message that it receives (4), credits (4), window bytes (8), key of the log memory (8), its base
//! (8), the provider's name, the endpoint's address. The length of an endpoint's address depends on
//! the provider.

use refrain_ring::{Incarnation, Rank};
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// Version of the published address. A reader refuses every other.
pub const ADDRESS_VERSION: u8 = 1;
/// Bytes before the provider's name and the endpoint's address.
pub const FIXED_BYTES: usize = 52;

/// A published address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkAddress {
    /// The rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The number of the job.
    pub job: u64,
    /// libfabric's name of the provider, or `verbs`.
    pub provider: String,
    /// The endpoint's address.
    pub name: Vec<u8>,
    /// The longest message that its receives have room for, in bytes.
    pub message_bytes_max: u32,
    /// Maximum number of frames in flight to it from one peer.
    pub credits: u32,
    /// Bytes that the log of one channel may hold before sends wait.
    pub window_bytes: u64,
    /// Remote key of the log memory; 0 without remote memory access.
    pub key: u64,
    /// The remote address of offset 0 of the log memory.
    pub base: u64,
}

/// Why bytes are not an address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Fewer or more bytes than the address states.
    #[error("an address of {found} bytes claims to have {claimed}")]
    Length {
        /// The given length in bytes.
        found: usize,
        /// The stated length in bytes.
        claimed: usize,
    },
    /// Written by another version.
    #[error(
        "an address of version {0}, this program reads version {ADDRESS_VERSION}: run the same refrain on every rank"
    )]
    Version(u8),
    /// The provider's name is not UTF-8.
    #[error("the provider's name is not UTF-8")]
    Text,
}

impl NetworkAddress {
    /// Encodes the address.
    ///
    /// # Panics
    /// When a name is too long for its length field.
    pub fn encode(&self) -> Vec<u8> {
        let provider_bytes =
            u8::try_from(self.provider.len()).expect("names of providers are short");
        let name_bytes = u16::try_from(self.name.len()).expect("addresses are short");
        let mut bytes = vec![ADDRESS_VERSION, provider_bytes];
        bytes.extend(name_bytes.to_le_bytes());
        let life = u64::from(self.rank.0) | u64::from(self.incarnation.0) << 32;
        let room = u64::from(self.message_bytes_max) | u64::from(self.credits) << 32;
        for word in [life, self.job, room, self.window_bytes, self.key, self.base] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.provider.as_bytes());
        bytes.extend(&self.name);
        bytes
    }

    /// Decodes an address.
    ///
    /// # Errors
    /// When the bytes are not an address that this version can have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, AddressError> {
        let length = |claimed| AddressError::Length {
            found: bytes.len(),
            claimed,
        };
        let version = *bytes.first().ok_or(length(FIXED_BYTES))?;
        if version != ADDRESS_VERSION {
            return Err(AddressError::Version(version));
        }
        let fixed: &[u8; FIXED_BYTES] = bytes.first_chunk().ok_or(length(FIXED_BYTES))?;
        let provider_bytes = usize::from(fixed[1]);
        let name_bytes = usize::from(u16::from_le_bytes([fixed[2], fixed[3]]));
        let claimed = FIXED_BYTES + provider_bytes + name_bytes;
        if bytes.len() != claimed {
            return Err(length(claimed));
        }
        let word = |at: usize| {
            let (words, _) = fixed[4..].as_chunks::<8>();
            u64::from_le_bytes(words[at])
        };
        let (provider, name) = bytes[FIXED_BYTES..].split_at(provider_bytes);
        Ok(Self {
            provider: core::str::from_utf8(provider)
                .map_err(|_| AddressError::Text)?
                .to_owned(),
            name: name.to_vec(),
            rank: Rank(word(0) as u32),
            incarnation: Incarnation((word(0) >> 32) as u32),
            job: word(1),
            message_bytes_max: word(2) as u32,
            credits: (word(2) >> 32) as u32,
            window_bytes: word(3),
            key: word(4),
            base: word(5),
        })
    }

    /// Explains why ranks with these addresses cannot work together, if so. The compared values
    /// follow from provider and size of the job, unless libraries differ.
    pub fn mismatch(&self, own: &Self) -> Option<String> {
        if self.provider != own.provider {
            return Some(format!(
                "it uses the provider {}, this rank {}: are the libraries of the hosts of different versions?",
                self.provider, own.provider
            ));
        }
        let room = |of: &Self| (of.message_bytes_max, of.credits);
        if room(self) != room(own) {
            return Some(format!(
                "it receives {} messages of up to {} bytes from a peer, this rank {} of up to {}: are the libraries of the hosts of different versions?",
                self.credits, self.message_bytes_max, own.credits, own.message_bytes_max
            ));
        }
        None
    }

    /// The endpoint's address in readable form: an internet address, text, or hexadecimal.
    pub fn readable(&self) -> String {
        let name = &self.name[..];
        if let Some(host) = refrain_verbs::readable(name) {
            return host;
        }
        let family = name.first_chunk().map(|family| u16::from_ne_bytes(*family));
        let socket = |ip: IpAddr| {
            let port = u16::from_be_bytes([name[2], name[3]]);
            SocketAddr::new(ip, port).to_string()
        };
        match (family, name.len()) {
            (Some(2), 16) => {
                let octets = name[4..].first_chunk::<4>().expect("sixteen bytes");
                socket((*octets).into())
            }
            (Some(10), 28) => {
                let octets = name[8..].first_chunk::<16>().expect("28 bytes");
                socket((*octets).into())
            }
            _ => {
                let text = name.strip_suffix(&[0]).unwrap_or(name);
                match core::str::from_utf8(text) {
                    Ok(text) if text.chars().all(|c| c.is_ascii_graphic()) => text.to_owned(),
                    _ => name.iter().map(|byte| format!("{byte:02x}")).collect(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> NetworkAddress {
        NetworkAddress {
            rank: Rank(70_000),
            incarnation: Incarnation(u32::MAX),
            job: 1 << 63,
            provider: "tcp;ofi_rxm".into(),
            message_bytes_max: 131_200,
            credits: u32::MAX - 1,
            name: vec![2, 0, 0x1f, 0x90, 10, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0],
            window_bytes: 1 << 40,
            key: 3,
            base: u64::MAX,
        }
    }

    #[test]
    fn it_comes_back_and_every_other_length_is_refused() {
        let bytes = address().encode();
        assert_eq!(NetworkAddress::decode(&bytes), Ok(address()));
        for end in 0..bytes.len() {
            assert!(
                NetworkAddress::decode(&bytes[..end]).is_err(),
                "{end} bytes"
            );
        }
        assert!(NetworkAddress::decode(&[&bytes[..], &[0]].concat()).is_err());
        let mut other = bytes.clone();
        other[0] = 2;
        assert_eq!(
            NetworkAddress::decode(&other),
            Err(AddressError::Version(2))
        );
        other = bytes;
        other[FIXED_BYTES] = 0xff;
        assert_eq!(NetworkAddress::decode(&other), Err(AddressError::Text));
    }

    #[test]
    fn people_can_read_it() {
        let named = |name: &[u8]| {
            NetworkAddress {
                name: name.to_vec(),
                ..address()
            }
            .readable()
        };
        assert_eq!(address().readable(), "10.0.0.7:8080");
        assert_eq!(named(b"fi_shm://7:0:0\0"), "fi_shm://7:0:0");
        assert_eq!(named(&[1, 0xff]), "01ff");
        let mut six = vec![10, 0, 0x1f, 0x90, 0, 0, 0, 0];
        six.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        six.extend([0; 4]);
        assert_eq!(named(&six), "[fe80::1]:8080");
    }
}
