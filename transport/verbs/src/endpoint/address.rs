//! The address of an endpoint, as it is passed to other processes.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | `RV` |
//! | 2 | version, 1 |
//! | 3 | 0 |
//! | 4..20 | identity |
//! | 20..36 | GID of the port, in the order of the wire |
//! | 36..40 | number of the queue pair for greetings, little endian |
//! | 40..44 | its key, little endian |
//! | 44..46 | LID, little endian |
//! | 46 | MTU as verbs count it, 1 to 5 |
//! | 47 | reads served at a time |
//! | 48 | reads asked at a time |

use crate::Error;
use crate::greeting::{Contact, Identity};

/// Length of an address.
pub const ADDRESS_BYTES: usize = 49;

const BEGINNING: [u8; 4] = *b"RV\x01\0";

/// The content of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) identity: Identity,
    pub(super) contact: Contact,
}

impl Address {
    pub(super) fn encode(&self) -> Vec<u8> {
        let contact = &self.contact;
        let mut bytes = Vec::with_capacity(ADDRESS_BYTES);
        bytes.extend(BEGINNING);
        bytes.extend(self.identity.0);
        bytes.extend(contact.gid);
        bytes.extend(contact.qpn.to_le_bytes());
        bytes.extend(contact.qkey.to_le_bytes());
        bytes.extend(contact.lid.to_le_bytes());
        bytes.extend([contact.mtu, contact.reads_served, contact.reads_asked]);
        bytes
    }

    /// # Errors
    /// When the bytes are no address, or an address of another version.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let refuse = |words: String| Error::invalid("insert the address of a peer", words);
        let bytes: &[u8; ADDRESS_BYTES] = bytes.try_into().map_err(|_| {
            refuse(format!(
                "an address of verbs has {ADDRESS_BYTES} bytes, this one {}",
                bytes.len()
            ))
        })?;
        if bytes[..4] != BEGINNING {
            return Err(refuse(
                "it is no address of verbs, or of another version of Refrain: start all processes \
                 with the same"
                    .to_owned(),
            ));
        }
        let array = |at: usize| -> [u8; 16] { core::array::from_fn(|index| bytes[at + index]) };
        let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|index| bytes[at + index]));
        let contact = Contact {
            gid: array(20),
            lid: u16::from_le_bytes([bytes[44], bytes[45]]),
            qpn: word(36),
            qkey: word(40),
            mtu: bytes[46],
            reads_served: bytes[47],
            reads_asked: bytes[48],
        };
        if !(1..=5).contains(&contact.mtu) || contact.qpn >> 24 != 0 {
            return Err(refuse(
                "its MTU or its queue pair number is invalid".to_owned(),
            ));
        }
        Ok(Self {
            identity: Identity(array(4)),
            contact,
        })
    }
}

/// The host in an address, for messages: `10.0.0.7`, `fe80::1`, or `LID 3` in an InfiniBand subnet.
/// `None` if the bytes are no address.
pub fn readable(address: &[u8]) -> Option<String> {
    let contact = Address::decode(address).ok()?.contact;
    let gid = std::net::Ipv6Addr::from(contact.gid);
    Some(match (contact.lid, gid.to_ipv4_mapped()) {
        (0, Some(host)) => host.to_string(),
        (0, None) => gid.to_string(),
        (lid, _) => format!("LID {lid}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address {
            identity: Identity(core::array::from_fn(|index| index as u8 + 1)),
            contact: Contact {
                gid: core::array::from_fn(|index| 0x80 | index as u8),
                lid: 0x1234,
                qpn: 0x00ab_cdef,
                qkey: 0x0102_0304,
                mtu: 3,
                reads_served: 16,
                reads_asked: 7,
            },
        }
    }

    #[test]
    fn an_address_comes_back() {
        let bytes = address().encode();
        assert_eq!(bytes.len(), ADDRESS_BYTES);
        assert_eq!(Address::decode(&bytes).unwrap(), address());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let bytes = address().encode();
        for length in 0..bytes.len() {
            assert!(Address::decode(&bytes[..length]).is_err());
        }
        for (at, value) in [(0, b'X'), (2, 2), (3, 1), (46, 0), (46, 6), (39, 1)] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            assert!(Address::decode(&bytes).is_err(), "byte {at} is {value}");
        }
    }
}
