//! What a disk alone sustains: writes and reads of the kind that the payload log
//! makes, and nothing else.
//!
//! Blocks of a chunk's length go past the page cache (`O_DIRECT`, where the file
//! system has it) to preallocated files, several at once. Each of them waits in
//! a thread of its own, so that the figure is the disk's and not that of one way
//! to ask it. The files have no names: nothing is left behind, however this
//! process ends.

mod block;
mod lane;
mod run;

pub use block::Block;
pub use lane::{Lane, Way};
pub use run::{Access, Load, Until, run};

use crate::interrupt::Interrupted;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Bytes of one write or read: a chunk of the log.
pub const BLOCK_BYTES: usize = refrain_ring::CHUNK_BYTES;
/// Writes or reads under way at once, for each lane.
pub const IN_FLIGHT: usize = 8;

/// Why the disk was not measured.
#[derive(Debug, Error)]
pub enum DiskError {
    /// The system refused.
    #[error("{attempted} in {}: {error}", folder.display())]
    System {
        /// What was attempted.
        attempted: &'static str,
        /// Where.
        folder: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// Somebody asked for the end.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl DiskError {
    fn system(attempted: &'static str, folder: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System {
            attempted,
            folder: folder.into(),
            error,
        }
    }
}

/// What was transferred, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transferred {
    /// By all lanes together.
    pub bytes: u64,
    /// The time.
    pub seconds: f64,
}

impl Transferred {
    /// Bytes per second; 0 when no time has passed.
    pub fn bytes_per_s(&self) -> f64 {
        if self.seconds > 0.0 {
            self.bytes as f64 / self.seconds
        } else {
            0.0
        }
    }
}

/// Bytes of `folder`'s file system that this user may still take.
///
/// # Errors
/// When the system does not say.
pub fn free_bytes(folder: &Path) -> Result<u64, DiskError> {
    let found = rustix::fs::statvfs(folder)
        .map_err(io::Error::from)
        .map_err(DiskError::system("cannot ask for the free space", folder))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}
