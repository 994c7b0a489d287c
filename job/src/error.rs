//! Errors between a launcher and a rank.

use thiserror::Error;

/// Error of a job: what was attempted, what failed, and what to do.
#[derive(Debug, Error)]
pub enum JobError {
    /// An argument outside its limits.
    #[error("{0}")]
    Argument(String),
    /// The job's settings cannot be used.
    #[error("{0}")]
    Config(String),
    /// The launcher or its control socket failed.
    #[error("{attempted}: {error}")]
    Control {
        /// What was attempted, and what to do about it.
        attempted: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The launcher ends the job.
    #[error("the job is being ended: {0}")]
    Aborted(String),
}

impl JobError {
    /// A [`JobError::Control`] with the attempted operation and the system's error.
    pub fn control(attempted: impl Into<String>, error: impl Into<std::io::Error>) -> Self {
        Self::Control {
            attempted: attempted.into(),
            error: error.into(),
        }
    }
}
