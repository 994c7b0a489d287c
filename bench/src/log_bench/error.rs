//! What can go wrong, in words for the command line.

use crate::disk::DiskError;
use crate::interrupt::Interrupted;
use refrain_logging::{image, store};
use std::io;
use std::path::PathBuf;

/// Why a log was not measured.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum LogBenchError {
    /// An option cannot be used.
    #[error("{option}: {problem}")]
    Option {
        /// As written on the command line.
        option: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
    /// Too little space.
    #[error("{} MiB are needed in {}, {} MiB are free", needed_bytes >> 20, folder.display(), free_bytes >> 20)]
    #[diagnostic(help("lower --size: twice as much must be free, and some"))]
    Room {
        /// Where.
        folder: PathBuf,
        /// What the log and the disk's own file take.
        needed_bytes: u64,
        /// What is there.
        free_bytes: u64,
    },
    /// The disk alone could not be measured.
    #[error("the disk alone: {0}")]
    Disk(DiskError),
    /// No files for the log.
    #[error("the log has no disk: {0}")]
    Store(#[from] store::disk::DiskError),
    /// The disk refused the log.
    #[error("the log cannot be written: {0}")]
    Spill(store::StoreError),
    /// The log could not be opened.
    #[error(transparent)]
    Open(#[from] image::OpenError),
    /// The log could not be read.
    #[error("the log cannot be read back: {0}")]
    Read(#[from] image::ReadFailure),
    /// Other records came back than were written.
    #[error("the log was not read back as it was written: {0}")]
    Wrong(String),
    /// No listening for Ctrl-C.
    #[error("cannot listen for Ctrl-C: {0}")]
    Signals(io::Error),
    /// Ctrl-C or a request to end.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl From<DiskError> for LogBenchError {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::Interrupted(interrupted) => interrupted.into(),
            error @ DiskError::System { .. } => Self::Disk(error),
        }
    }
}
