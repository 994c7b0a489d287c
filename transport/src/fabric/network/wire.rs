//! The header before everything that the `ofi` fabric sends.
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
//! A message that is whole in one record goes with a [`BriefHeader`] in place of
//! both.

mod brief;

pub use brief::{BRIEF_BYTES, BRIEF_KIND, BriefHeader, connection_key, nearest, nearest_u16};

use refrain_ring::{Incarnation, Rank};
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
    /// The next frame of the data lane; its payload is to be read.
    Distant = 2,
    /// The next frame of the control lane.
    Control = 3,
    /// Only the counters of frames taken.
    Acknowledge = 4,
    /// Numbers of the next frames: acknowledge the ones before, or ask for the missing.
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
    /// What follows.
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
    /// How many of the data frames taken are not let go.
    pub held: u32,
    /// By kind.
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
    #[error("{held} frames are held of {taken} taken")]
    Held {
        /// As claimed.
        held: u32,
        /// As claimed.
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

#[cfg(test)]
mod tests;
