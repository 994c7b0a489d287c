//! The bytes of a checkpoint: docs/formats/checkpoint-format.md.
//!
//! A page with the header comes first, then pieces of sections without gaps, then the end piece.
//! Pieces never cross a multiple of [`STRIP_BYTES`]: a checkpoint is written, sent and checked
//! strip by strip.

mod header;
mod piece;

pub use header::{Header, PAGE_BYTES};
pub use piece::{PIECE_HEADER_BYTES, PieceHeader};

use refrain_ring::{Incarnation, Rank};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Version of the format. A reader refuses every other version.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes of a strip. No piece crosses a multiple of it.
pub const STRIP_BYTES: usize = 1 << 20;
/// Most sections of a checkpoint.
pub const SECTIONS_MAX: usize = 1 << 16;

/// The kind of a section's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "u16", try_from = "u16")]
pub enum SectionKind {
    /// A part of the engine's state.
    Engine,
    /// The part of a payload log that is not freed; the id is the destination.
    Log,
    /// Memory of the application; the id is the program's.
    Memory,
}

impl SectionKind {
    /// The name of the kind, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Log => "log",
            Self::Memory => "memory",
        }
    }
}

impl From<SectionKind> for u16 {
    fn from(kind: SectionKind) -> Self {
        match kind {
            SectionKind::Engine => 1,
            SectionKind::Log => 2,
            SectionKind::Memory => 3,
        }
    }
}

impl TryFrom<u16> for SectionKind {
    type Error = Flaw;

    fn try_from(code: u16) -> Result<Self, Flaw> {
        match code {
            1 => Ok(Self::Engine),
            2 => Ok(Self::Log),
            3 => Ok(Self::Memory),
            _ => Err(Flaw::Kind(code)),
        }
    }
}

/// A rank, encoded as its number.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Rank")]
pub(crate) struct RankNumber(u32);

/// An incarnation, encoded as its number.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Incarnation")]
pub(crate) struct IncarnationNumber(u32);

/// The kind, id and length of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionInfo {
    /// The kind of the section.
    pub kind: SectionKind,
    /// The id of the section within its kind.
    pub id: u64,
    /// The length of the content, in bytes.
    pub bytes: u64,
}

/// Bytes are not a whole checkpoint, or not the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Flaw {
    /// The file is too short.
    #[error("it is cut short")]
    Short,
    /// The file is no checkpoint.
    #[error("it is no checkpoint")]
    Magic,
    /// The file was written by another version of this program.
    #[error("it is of version {0}, this program reads version {FORMAT_VERSION}")]
    Version(u32),
    /// The header does not match its checksum.
    #[error("its header does not match its checksum")]
    Header,
    /// A piece does not match its checksum, or is not a piece of this checkpoint.
    #[error("a piece does not match its checksum")]
    Piece,
    /// The pieces do not follow each other.
    #[error("a piece is at the place of another one")]
    Order,
    /// This version does not know the kind of the section.
    #[error("a section of unknown kind {0}")]
    Kind(u16),
    /// Two sections have the same kind and id, or there are too many.
    #[error("it has a section twice, or too many sections")]
    Sections,
    /// The end does not match the pieces before it.
    #[error("its end is that of another checkpoint")]
    End,
    /// Bytes follow after the end.
    #[error("bytes follow its end")]
    Behind,
    /// The checkpoint is of another job, rank or number.
    #[error("it is of job {job:#x}, rank {rank}, number {number}")]
    Foreign {
        /// The job.
        job: u64,
        /// The rank.
        rank: u32,
        /// The number of the checkpoint.
        number: u64,
    },
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

/// Whether all bytes are 0.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
