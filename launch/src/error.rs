//! What can go wrong when a job is started and served.

use refrain_job::JobError;
use thiserror::Error;

/// What went wrong, what was attempted and what to do about it.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The job's settings cannot be used, or the system refuses something.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The program cannot be started.
    #[error("{reason}")]
    Program {
        /// What was tried and what to do.
        reason: String,
        /// The program exists, but may not be executed.
        found: bool,
    },
    /// A signal to the launcher ended the job before its ranks were started.
    #[error("the job was ended by {name} before its ranks were started")]
    Interrupted {
        /// As shells have it: 128 + signal.
        status: u8,
        /// The signal's name.
        name: String,
    },
}
