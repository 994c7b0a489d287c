//! Why a workload failed.

use thiserror::Error;

/// Why a workload failed.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// The library refused or failed.
    #[error(transparent)]
    World(#[from] refrain::Error),
    /// Received data differs from sent data, or an operation violates its contract.
    #[error("verification failed: {0}")]
    Verification(String),
    /// The options do not fit the job.
    #[error("{0}")]
    Options(String),
    /// The system refused something.
    #[error("{attempted}: {error}")]
    System {
        /// What was attempted.
        attempted: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// Another error, and its place.
    #[error("{place}: {error}")]
    At {
        /// Where it happened.
        place: String,
        /// What.
        error: Box<WorkloadError>,
    },
}

impl WorkloadError {
    /// Adds where it happened.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        Self::At {
            place: place.into(),
            error: Box::new(self),
        }
    }
}

/// Makes a [`WorkloadError::Verification`] unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::workload::error::WorkloadError::Verification(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;
