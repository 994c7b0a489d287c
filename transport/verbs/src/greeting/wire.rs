//! Greetings as bytes.
//!
//! Format (little endian), [`GREETING_BYTES`] long:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | magic, `RfGr` |
//! | 4 | version, [`GREETING_VERSION`] |
//! | 5 | stage of the sender's queue pair: 0 fresh, 1 bound, 2 established |
//! | 6..8 | 0 |
//! | 8..24 | identity of the sender |
//! | 24..40 | identity of the addressee |
//! | 40..44 | generation of the sender's queue pair, from 1 on |
//! | 44..48 | its number, 24 bits |
//! | 48..52 | its first packet sequence number, 24 bits |
//! | 52..68 | GID of the sender's port |
//! | 68..72 | number of the queue pair for greetings, 24 bits |
//! | 72..76 | its queue key |
//! | 76..78 | LID of the port, 0 with RoCE |
//! | 78 | MTU of the port: 1 is 256 bytes, each more the double, up to 5 |
//! | 79 | reads and atomics that it serves at once |
//! | 80 | reads and atomics that it asks for at once |
//! | 81..84 | 0 |
//!
//! There is no checksum, since packets of verbs contain one.

use core::fmt;
use thiserror::Error;

/// Bytes of a greeting, without the 40 bytes of the route header that verbs put before a datagram.
pub const GREETING_BYTES: usize = 84;
/// Version of the format. A reader refuses every other version.
pub const GREETING_VERSION: u8 = 1;
/// The highest number of a queue pair, and the highest packet sequence number.
pub const NUMBER_MAX: u32 = (1 << 24) - 1;

const MAGIC: [u8; 4] = *b"RfGr";
const RESERVED: [core::ops::Range<usize>; 2] = [6..8, 81..84];

/// Identifies an endpoint. It is random and new for each endpoint, so that no two lives of a rank
/// share it (FENCE-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(pub [u8; 16]);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The address for greetings to an endpoint, and the limits of a connection to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Contact {
    /// GID of the port.
    pub gid: [u8; 16],
    /// LID of the port; 0 with RoCE.
    pub lid: u16,
    /// Number of the unreliable queue pair that receives greetings.
    pub qpn: u32,
    /// The queue key of that queue pair.
    pub qkey: u32,
    /// MTU of the port as verbs count it: 1 is 256 bytes, 5 is 4096.
    pub mtu: u8,
    /// Reads and atomics of a peer that a queue pair of the endpoint serves at a time.
    pub reads_served: u8,
    /// Reads and atomics that a queue pair of the endpoint may have in progress.
    pub reads_asked: u8,
}

/// A new queue pair, which is not bound to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// The attempt at a pair that it was made for, from 1. Both sides share this count.
    pub generation: u32,
    /// The number of the queue pair.
    pub qpn: u32,
    /// The sequence number of the first packet that it sends. It is random, so that packets for an
    /// earlier queue pair with the same number are rejected.
    pub psn: u32,
}

/// The stage of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Not bound to another queue pair.
    Fresh,
    /// Bound to the other side's queue pair of the same generation, and receives from it.
    Bound,
    /// Bound, and its side knows that the other side's queue pair is bound to it.
    Established,
}

/// A message from one endpoint to another about their connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Greeting {
    /// The sender.
    pub from: Identity,
    /// The addressee.
    pub to: Identity,
    /// The sender's queue pair for the addressee.
    pub offer: Offer,
    /// The stage of that queue pair. Until it is established, the sender needs an answer.
    pub stage: Stage,
    /// The address of the sender.
    pub contact: Contact,
}

/// Bytes are no greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GreetingError {
    /// The number of bytes is wrong.
    #[error("a greeting of {0} bytes instead of {GREETING_BYTES}")]
    Length(usize),
    /// The magic number is wrong.
    #[error("a datagram that is not a greeting: it begins with {0:02x?}")]
    Magic([u8; 4]),
    /// The greeting was written by another version.
    #[error(
        "a greeting of version {0}, this program reads version {GREETING_VERSION}: run the same refrain on every rank"
    )]
    Version(u8),
    /// A field has an invalid value.
    #[error("a greeting with an invalid {0}")]
    Field(&'static str),
}

impl Greeting {
    /// Encodes the greeting.
    pub fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(4, &[GREETING_VERSION, self.stage as u8]);
        put(8, &self.from.0);
        put(24, &self.to.0);
        put(40, &self.offer.generation.to_le_bytes());
        put(44, &self.offer.qpn.to_le_bytes());
        put(48, &self.offer.psn.to_le_bytes());
        let contact = &self.contact;
        put(52, &contact.gid);
        put(68, &contact.qpn.to_le_bytes());
        put(72, &contact.qkey.to_le_bytes());
        put(76, &contact.lid.to_le_bytes());
        put(
            78,
            &[contact.mtu, contact.reads_served, contact.reads_asked],
        );
        bytes
    }

    /// Decodes a greeting.
    ///
    /// # Errors
    /// When the bytes are not a greeting that this version can have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, GreetingError> {
        let fixed: &[u8; GREETING_BYTES] = bytes
            .try_into()
            .map_err(|_| GreetingError::Length(bytes.len()))?;
        let magic = part(fixed, 0);
        if magic != MAGIC {
            return Err(GreetingError::Magic(magic));
        }
        if fixed[4] != GREETING_VERSION {
            return Err(GreetingError::Version(fixed[4]));
        }
        let mut reserved = RESERVED.into_iter().flat_map(|range| &fixed[range]);
        if reserved.any(|&byte| byte != 0) {
            return Err(GreetingError::Field("reserved byte"));
        }
        let stage = match fixed[5] {
            0 => Stage::Fresh,
            1 => Stage::Bound,
            2 => Stage::Established,
            _ => return Err(GreetingError::Field("stage")),
        };
        Self::from_fields(fixed, stage).checked()
    }

    fn from_fields(fixed: &[u8; GREETING_BYTES], stage: Stage) -> Self {
        let word = |at| u32::from_le_bytes(part(fixed, at));
        Self {
            from: Identity(part(fixed, 8)),
            to: Identity(part(fixed, 24)),
            offer: Offer {
                generation: word(40),
                qpn: word(44),
                psn: word(48),
            },
            stage,
            contact: Contact {
                gid: part(fixed, 52),
                lid: u16::from_le_bytes(part(fixed, 76)),
                qpn: word(68),
                qkey: word(72),
                mtu: fixed[78],
                reads_served: fixed[79],
                reads_asked: fixed[80],
            },
        }
    }

    fn checked(self) -> Result<Self, GreetingError> {
        // 0 and 1 are the queue pairs of the subnet management.
        let is_qpn = |qpn| (2..=NUMBER_MAX).contains(&qpn);
        let impossible = if self.from == self.to {
            "addressee"
        } else if self.offer.generation == 0 {
            "generation"
        } else if !is_qpn(self.offer.qpn) || !is_qpn(self.contact.qpn) {
            "queue pair number"
        } else if self.offer.psn > NUMBER_MAX {
            "packet sequence number"
        } else if !(1..=5).contains(&self.contact.mtu) {
            "MTU"
        } else {
            return Ok(self);
        };
        Err(GreetingError::Field(impossible))
    }
}

fn part<const N: usize>(bytes: &[u8; GREETING_BYTES], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a constant place")
}

#[cfg(test)]
mod tests;
