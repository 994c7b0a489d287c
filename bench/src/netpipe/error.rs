//! What can go wrong in a sweep, in words for the command line.

use crate::disk::DiskError;
use crate::interrupt::Interrupted;
use std::path::PathBuf;

/// Why a sweep did not begin or did not end well.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum NetpipeError {
    /// An option cannot be used.
    #[error("{option}: {problem}")]
    Option {
        /// As written on the command line.
        option: &'static str,
        /// What is wrong with its value.
        problem: String,
        /// What exists or what to do.
        #[help]
        help: String,
    },
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// The system's words.
        error: std::io::Error,
    },
    /// The plot could not be drawn.
    #[error("cannot draw the plot: {0}")]
    Plot(String),
    /// The system refused something that every sweep needs.
    #[error("{attempted}: {error}")]
    System {
        /// What was attempted.
        attempted: &'static str,
        /// The system's words.
        error: std::io::Error,
    },
    /// The launcher could not start or serve a job.
    #[error("the job with {job} failed: {reason}")]
    Job {
        /// Its fabric and protocol.
        job: String,
        /// What happened.
        reason: String,
    },
    /// A rank says that it could not do what it was told.
    #[error("rank {rank} of the job with {job}: {reason}")]
    Rank {
        /// The job's fabric and protocol.
        job: String,
        /// Which of the two.
        rank: u32,
        /// Its words.
        reason: String,
    },
    /// This process is a rank and the library or the driver failed it.
    #[error("this rank of the sweep cannot go on: {0}")]
    InRank(String),
    /// What the disk alone sustains cannot be measured.
    #[error("the disk alone: {0}")]
    Disk(DiskError),
    /// Ctrl-C or a request to end.
    #[error("interrupted")]
    Interrupted,
}

impl From<Interrupted> for NetpipeError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl From<DiskError> for NetpipeError {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::Interrupted(interrupted) => interrupted.into(),
            error @ DiskError::System { .. } => Self::Disk(error),
        }
    }
}

impl NetpipeError {
    pub(super) fn system(attempted: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::System { attempted, error }
    }
}
