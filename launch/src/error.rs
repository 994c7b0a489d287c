//! Errors of the launcher.

use refrain_job::JobError;
use thiserror::Error;

/// Error of starting or serving a job: what was attempted, what failed, what to do.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The job's settings are invalid, or a system call failed.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The program cannot be started.
    #[error("{reason}")]
    Program {
        /// What was tried, and what to do.
        reason: String,
        /// The program exists, but is not executable.
        found: bool,
    },
    /// A signal to the launcher ended the job before its ranks were started.
    #[error("the job was ended by {name} before its ranks were started")]
    Interrupted {
        /// 128 + signal, as shells report it; [`STOPPED`](crate::STOPPED) if a later run goes on.
        status: u8,
        /// The signal's name.
        name: String,
    },
}
