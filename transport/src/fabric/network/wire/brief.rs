//! The short header.
//!
//! A message that is whole in one record, the common case, goes with a shorter
//! header in place of both ([`BRIEF_BYTES`] bytes), because a cache line more
//! costs time. Counters are cut to what tells them apart within a window:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind, 9 |
//! | 1 | version |
//! | 2 | flags of the record |
//! | 3 | 0 |
//! | 4..8 | rank of the sender |
//! | 8..16 | job + (incarnation of the sender · 2³² + that of the addressee) |
//! | 16..20 | number on the lane |
//! | 20..24 | data frames taken |
//! | 24..26 | control frames taken |
//! | 26..28 | frames held |
//! | 28..36 | SSN |
//! | 36..40 | context |
//! | 40..44 | tag |
//!
//! The payload follows, and ends with the message.

use super::{WIRE_VERSION, WireError};
use refrain_ring::{Incarnation, Rank, Ssn};

/// Bytes of a short header.
pub const BRIEF_BYTES: usize = 44;
/// First byte of a short header.
pub const BRIEF_KIND: u8 = 9;

/// The short header of a message that is whole in one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BriefHeader {
    /// Flags of the record.
    pub flags: u8,
    /// The sender.
    pub source: Rank,
    /// Of job and incarnations: see [`connection_key`].
    pub key: u64,
    /// Number on the lane, its low bits.
    pub sequence: u32,
    /// Data frames taken, its low bits.
    pub taken: u32,
    /// Control frames taken, its low bits.
    pub control_taken: u16,
    /// Frames held.
    pub held: u16,
    /// The message's.
    pub ssn: Ssn,
    /// The message's.
    pub context: u32,
    /// The message's.
    pub tag: i32,
}

/// What tells the messages of one connection from all others: within a job, no
/// two pairs of incarnations have the same.
#[inline]
pub fn connection_key(job: u64, from: Incarnation, to: Incarnation) -> u64 {
    job.wrapping_add(u64::from(from.0) << 32 | u64::from(to.0))
}

/// The number nearest to `near` that has these low bits.
#[inline]
pub fn nearest(near: u64, low: u32) -> u64 {
    let distance = low.wrapping_sub(near as u32).cast_signed();
    near.wrapping_add_signed(distance.into())
}

/// Likewise.
#[inline]
pub fn nearest_u16(near: u64, low: u16) -> u64 {
    let distance = low.wrapping_sub(near as u16).cast_signed();
    near.wrapping_add_signed(distance.into())
}

impl BriefHeader {
    /// Encodes the header.
    #[inline]
    pub fn encode(&self) -> [u8; BRIEF_BYTES] {
        let mut bytes = [0; BRIEF_BYTES];
        let words = [
            u64::from(BRIEF_KIND)
                | u64::from(WIRE_VERSION) << 8
                | u64::from(self.flags) << 16
                | u64::from(self.source.0) << 32,
            self.key,
            u64::from(self.sequence) | u64::from(self.taken) << 32,
            u64::from(self.control_taken) | u64::from(self.held) << 16 | self.ssn.0 << 32,
            self.ssn.0 >> 32 | u64::from(self.context) << 32,
        ];
        bytes[..40].copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
        bytes[40..].copy_from_slice(&self.tag.to_le_bytes());
        bytes
    }

    /// Decodes a header from the start of `bytes`.
    ///
    /// # Errors
    /// When the bytes are not a short header of this version.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let head: &[u8; BRIEF_BYTES] = bytes.first_chunk().ok_or(WireError::Short(bytes.len()))?;
        let (words, rest) = head.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        let first = word(0);
        if first as u8 != BRIEF_KIND {
            return Err(WireError::Kind(first as u8));
        }
        if (first >> 8) as u8 != WIRE_VERSION {
            return Err(WireError::Version((first >> 8) as u8));
        }
        if (first >> 24) as u8 != 0 {
            return Err(WireError::Reserved);
        }
        let tag: [u8; 4] = rest.try_into().expect("44 bytes are five words and a half");
        Ok(Self {
            flags: (first >> 16) as u8,
            source: Rank((first >> 32) as u32),
            key: word(1),
            sequence: word(2) as u32,
            taken: (word(2) >> 32) as u32,
            control_taken: word(3) as u16,
            held: (word(3) >> 16) as u16,
            ssn: Ssn(word(3) >> 32 | word(4) << 32),
            context: (word(4) >> 32) as u32,
            tag: i32::from_le_bytes(tag),
        })
    }
}
