//! Files of batches: appended by many ranks, synced in groups, read back. The
//! format, and why it is so, is in docs/formats/event-files.md.
//!
//! | module | what |
//! |---|---|
//! | `format` | the bytes |
//! | `folder` | the files in their directory, and the write under way |
//! | `appender` | groups: one is written while the next gathers |
//! | `contents` | the ranks' logs, and where they lie |
//! | `watermark` | how far files were stored, beside them |
//! | `walk`, `replay`, `read` | from files to groups, to contents, to a rank's batches |

pub(crate) mod appender;
pub(crate) mod contents;
pub(crate) mod folder;
pub(crate) mod format;
pub(crate) mod read;
pub(crate) mod replay;
pub(crate) mod walk;
mod watermark;

use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a store cannot be opened, or cannot continue.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another logger has the folder.
    #[error("{} belongs to another event logger that is running: give each a folder of its own", .folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder belongs to another logger.
    #[error("{} was written by event logger {found}, this is event logger {wanted}: start it with --logger {found}, or with another folder", .file.display())]
    OtherLogger {
        /// A file in it.
        file: PathBuf,
        /// The number of its logger.
        found: u32,
        /// The number of this logger.
        wanted: u32,
    },
    /// A file was written by another version of this program.
    #[error("{} is of version {version}, this program reads version {known}: use the program that wrote it, or another folder", .file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// The version of the file.
        version: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// A file has changed since it was written.
    #[error("{} is damaged at byte {place}: {reason}; its events are lost here: if other replicas have it, start this logger with an empty folder", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where.
        place: u64,
        /// What is wrong.
        reason: String,
    },
    /// The files end before what was stored, and so before what was acknowledged.
    #[error("the files in {} end with group {found}, but groups up to {stored} were stored: files were deleted, cut or damaged, and acknowledged events are lost here. If a quorum of other replicas has them, the job goes on without this logger; otherwise its ranks cannot be recovered. To begin again without these events, remove the whole folder", .folder.display())]
    Lost {
        /// The folder.
        folder: PathBuf,
        /// The last group that is there.
        found: u64,
        /// The last group that was stored.
        stored: u64,
    },
    /// The logger continues with this folder, and all its files are gone.
    #[error("{} has no file `watermark`: this logger has run with this folder before, and all its files are gone, with all events that it acknowledged. If a quorum of other replicas has them, the job goes on without this logger; otherwise its ranks cannot be recovered", .folder.display())]
    NotBegun {
        /// The folder.
        folder: PathBuf,
    },
    /// No room: the writes wait, and are tried again by each
    /// [`Logbook::progress`](crate::logbook::Logbook::progress).
    #[error("{attempted}: {error}; nothing is acknowledged until there is room")]
    NoRoom {
        /// What was attempted.
        attempted: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A system call failed. The store stops, and determinants that it has not
    /// acknowledged may be lost.
    #[error("{attempted}: {error}")]
    Io {
        /// What was attempted.
        attempted: String,
        /// What the system said.
        error: std::io::Error,
    },
}

impl StoreError {
    pub(crate) fn io(doing: &str, path: &Path, error: std::io::Error) -> Self {
        Self::Io {
            attempted: format!("{doing} {}", path.display()),
            error,
        }
    }

    /// Whether the store continues once there is room.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::NoRoom { .. })
    }
}

/// Why determinants cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The rank is not known here.
    #[error("there is no log of rank {rank} of job {job:016x}")]
    Unknown {
        /// The job.
        job: u64,
        /// The rank.
        rank: u32,
    },
    /// The requested determinants have been trimmed. GC-1
    #[error(
        "determinants of rank {rank} are kept from number {first} on, all with clocks above {trimmed}: request only those"
    )]
    Trimmed {
        /// The rank.
        rank: u32,
        /// Number of the first determinant that is kept.
        first: u64,
        /// All determinants with a higher clock are kept.
        trimmed: u64,
    },
    /// Determinants are missing from the files.
    #[error("determinants {from} to {to} of rank {rank} are missing from the files in {}", .folder.display())]
    Gap {
        /// The rank.
        rank: u32,
        /// Number of the first missing determinant.
        from: u64,
        /// Number of the next existing determinant, or the end.
        to: u64,
        /// Where.
        folder: PathBuf,
    },
    /// A file cannot be read, or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
}
