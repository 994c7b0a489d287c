//! Errors of workloads.

use thiserror::Error;

/// Error of a workload.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// A call of the library failed.
    #[error(transparent)]
    World(#[from] refrain::Error),
    /// Received data differs from sent data, or an operation violates its contract.
    #[error("verification failed: {0}")]
    Verification(String),
    /// The options do not fit the job.
    #[error("{0}")]
    Options(String),
    /// A system call failed.
    #[error("{attempted}: {error}")]
    System {
        /// What was attempted.
        attempted: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// Another error, with its place.
    #[error("{place}: {error}")]
    At {
        /// Place in the plan where it happened.
        place: String,
        /// The error.
        error: Box<WorkloadError>,
    },
}

impl WorkloadError {
    /// Adds the place where the error happened.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        Self::At {
            place: place.into(),
            error: Box::new(self),
        }
    }
}

/// Returns a [`WorkloadError::Verification`] unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::workload::error::WorkloadError::Verification(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;
