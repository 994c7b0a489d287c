//! The bytes of a checkpoint: docs/formats/checkpoint-format.md.
//!
//! A page with the header, then pieces of sections one behind the other, then a
//! piece that makes it whole. Pieces never cross a multiple of [`STRIP_BYTES`]:
//! a checkpoint is written, sent and checked strip by strip.

mod header;
mod piece;

pub use header::{Header, PAGE_BYTES};
pub use piece::{PIECE_HEADER_BYTES, PieceHeader};

use refrain_ring::{Incarnation, Rank};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Version of everything here. A reader refuses every other.
pub const FORMAT_VERSION: u32 = 1;
/// What no piece crosses a multiple of, in bytes.
pub const STRIP_BYTES: usize = 1 << 20;
/// Sections of a checkpoint, at most.
pub const SECTIONS_MAX: usize = 1 << 16;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "u16", try_from = "u16")]
pub enum SectionKind {
    /// A part of the engine's state.
    Engine,
    /// The part of a payload log that is not freed; the id is the destination.
    Log,
    /// Memory of the application, by its id.
    Memory,
}

impl SectionKind {
    /// Its name, for messages.
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

/// One section: what it is, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionInfo {
    /// What it holds.
    pub kind: SectionKind,
    /// Which of its kind.
    pub id: u64,
    /// Its content, in bytes.
    pub bytes: u64,
}

/// Why bytes are no whole checkpoint, or not the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Flaw {
    /// Ends before its end.
    #[error("it is cut short")]
    Short,
    /// Another kind of file.
    #[error("it is no checkpoint")]
    Magic,
    /// Of another version of this program.
    #[error("it is of version {0}, this program reads version {FORMAT_VERSION}")]
    Version(u32),
    /// The header is not as it was written.
    #[error("its header does not match its checksum")]
    Header,
    /// A piece is not as it was written, or of something else.
    #[error("a piece does not match its checksum")]
    Piece,
    /// Pieces that do not follow each other.
    #[error("a piece stands where another belongs")]
    Order,
    /// A kind of section that this version does not know.
    #[error("a section of unknown kind {0}")]
    Kind(u16),
    /// Two sections of the same kind and id, or too many.
    #[error("a section too many")]
    Sections,
    /// The end does not fit what is before it.
    #[error("its end is that of another checkpoint")]
    End,
    /// Something behind the end.
    #[error("there is something behind its end")]
    Behind,
    /// Another job's, rank's or number's.
    #[error("it is of job {job:#x}, rank {rank}, number {number}")]
    Foreign {
        /// The job.
        job: u64,
        /// The rank.
        rank: u32,
        /// Its number.
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
