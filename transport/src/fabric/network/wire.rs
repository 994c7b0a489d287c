//! The header of every message that the network fabric sends.
//!
//! Format (little endian, [`WIRE_BYTES`] bytes; docs/formats/wire-format.md):
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind, see [`Kind`] |
//! | 1 | version ([`WIRE_VERSION`]) |
//! | 2..4 | 0 |
//! | 4..8 | rank of the sender |
//! | 8..12 | incarnation of the sender |
//! | 12..16 | incarnation of the addressee, as the sender knows it |
//! | 16..24 | job |
//! | 24..32 | number of this frame on its lane, from 0; `Ask`: of the next data frame |
//! | 32..40 | data frames of the addressee that the sender has taken |
//! | 40..48 | control frames of the addressee that the sender has taken |
//! | 48..52 | of the data frames taken, how many (the last ones) the log still has to hold |
//! | 52..56 | 0 |
//! | 56..64 | `Distant`: where the payload begins in the sender's region; `Ask`: number of the next control frame; else 0 |
//!
//! `Frame` is followed by a record as it lies in the log, `Distant` by the
//! record's header, `Control` by a control frame, the others by nothing.
//!
//! A message that is whole in one record, the common case, has a [`BriefHeader`] in place of both
//! ([`BRIEF_BYTES`] bytes), because one more cache line costs time. Counters are cut to the low
//! bits that distinguish them within a window:
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind, 9 |
//! | 1 | version |
//! | 2 | flags of the record |
//! | 3 | bytes of the attachment |
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
//! The payload follows, up to the end of what was sent. If the record has an attachment, that is the end of the
//! payload.

use refrain_ring::{Incarnation, Rank, Ssn};
use thiserror::Error;

/// Version of the wire header. A reader refuses every other.
pub const WIRE_VERSION: u8 = 1;
/// Bytes of an encoded header: a cache line.
pub const WIRE_BYTES: usize = 64;

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The next frame of the data lane.
    Frame = 1,
    /// The next frame of the data lane; the receiver reads its payload from the log.
    Distant = 2,
    /// The next frame of the control lane.
    Control = 3,
    /// Only the counters of frames taken.
    Acknowledge = 4,
    /// Numbers of the next frames: the receiver acknowledges earlier frames, or asks for missing
    /// ones.
    Ask = 5,
    /// Frames are missing: send again all that the counters do not cover.
    Again = 6,
    /// A greeting.
    Hello = 7,
    /// The answer to a greeting.
    HelloAnswer = 8,
}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireHeader {
    /// The kind of the message.
    pub kind: Kind,
    /// The sender.
    pub source: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The addressee's incarnation.
    pub to_incarnation: Incarnation,
    /// The job.
    pub job: u64,
    /// Number on the lane.
    pub sequence: u64,
    /// Data frames taken.
    pub taken: u64,
    /// Control frames taken.
    pub control_taken: u64,
    /// How many of the last data frames taken the log still has to hold.
    pub held: u32,
    /// Its meaning depends on the kind.
    pub offset: u64,
}

/// Why bytes are not a header of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Fewer bytes than a header has.
    #[error("cut short: {0} of 64 bytes")]
    Short(usize),
    /// Written by another version.
    #[error(
        "version {0}, this program reads version {WIRE_VERSION}: run the same refrain on every rank"
    )]
    Version(u8),
    /// Not a kind that exists.
    #[error("unknown kind {0}")]
    Kind(u8),
    /// Reserved bytes are not 0.
    #[error("reserved bytes are not zero")]
    Reserved,
    /// More frames are held than were taken.
    #[error("{held} frames are held, but only {taken} were taken")]
    Held {
        /// The claimed number of frames held.
        held: u32,
        /// The claimed number of frames taken.
        taken: u64,
    },
}

impl WireHeader {
    /// Encodes the header.
    #[inline]
    pub fn encode(&self) -> [u8; WIRE_BYTES] {
        let words = [
            self.kind as u64 | u64::from(WIRE_VERSION) << 8 | u64::from(self.source.0) << 32,
            u64::from(self.incarnation.0) | u64::from(self.to_incarnation.0) << 32,
            self.job,
            self.sequence,
            self.taken,
            self.control_taken,
            u64::from(self.held),
            self.offset,
        ];
        let mut bytes = [0; WIRE_BYTES];
        bytes.copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
        bytes
    }

    /// Decodes a header from the start of `bytes`.
    ///
    /// # Errors
    /// When the bytes are not a header that this version can have written.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: &[[u8; 8]; 8] = words.first_chunk().ok_or(WireError::Short(bytes.len()))?;
        let [
            first,
            lives,
            job,
            sequence,
            taken,
            control_taken,
            held,
            offset,
        ] = words.map(u64::from_le_bytes);
        let version = (first >> 8) as u8;
        if version != WIRE_VERSION {
            return Err(WireError::Version(version));
        }
        if (first >> 16) as u16 != 0 || held >> 32 != 0 {
            return Err(WireError::Reserved);
        }
        let held = held as u32;
        if u64::from(held) > taken {
            return Err(WireError::Held { held, taken });
        }
        let kind = Kind::decode(first as u8)?;
        if offset != 0 && !matches!(kind, Kind::Distant | Kind::Ask) {
            return Err(WireError::Reserved);
        }
        Ok(Self {
            kind,
            source: Rank((first >> 32) as u32),
            incarnation: Incarnation(lives as u32),
            to_incarnation: Incarnation((lives >> 32) as u32),
            job,
            sequence,
            taken,
            control_taken,
            held,
            offset,
        })
    }
}

impl Kind {
    #[inline]
    fn decode(byte: u8) -> Result<Self, WireError> {
        Ok(match byte {
            1 => Self::Frame,
            2 => Self::Distant,
            3 => Self::Control,
            4 => Self::Acknowledge,
            5 => Self::Ask,
            6 => Self::Again,
            7 => Self::Hello,
            8 => Self::HelloAnswer,
            other => return Err(WireError::Kind(other)),
        })
    }
}

/// Bytes of a short header.
pub const BRIEF_BYTES: usize = 44;
/// First byte of a short header.
pub const BRIEF_KIND: u8 = 9;

/// The short header of a message that is whole in one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BriefHeader {
    /// Flags of the record.
    pub flags: u8,
    /// Bytes of the attachment at the end of the payload.
    pub attached_bytes: u8,
    /// The sender.
    pub source: Rank,
    /// Of job and incarnations: see [`connection_key`].
    pub key: u64,
    /// Low bits of the number on the lane.
    pub sequence: u32,
    /// Low bits of the number of data frames taken.
    pub taken: u32,
    /// Low bits of the number of control frames taken.
    pub control_taken: u16,
    /// Number of frames held.
    pub held: u16,
    /// SSN of the message.
    pub ssn: Ssn,
    /// Context of the message.
    pub context: u32,
    /// Tag of the message.
    pub tag: i32,
}

/// The key that distinguishes messages of one connection from all others: within a job, no two
/// pairs of incarnations have the same key.
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

/// As [`nearest`], with 16 low bits.
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
                | u64::from(self.attached_bytes) << 24
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
        let tag: [u8; 4] = rest.try_into().expect("44 bytes are five words and a half");
        Ok(Self {
            flags: (first >> 16) as u8,
            attached_bytes: (first >> 24) as u8,
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

#[cfg(test)]
mod tests;
