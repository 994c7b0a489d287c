//! Errors of this crate.

use std::time::Duration;
use thiserror::Error;

/// Why the server cannot be used.
#[derive(Debug, Error)]
pub enum PmiError {
    /// The environment names a server that does not answer as one.
    #[error("{interface}: {why}")]
    Unusable {
        /// Name of the interface.
        interface: &'static str,
        /// The reason.
        why: String,
    },
    /// The other tasks did not come to a fence in time.
    #[error("the other tasks did not end within {} s", .0.as_secs())]
    Late(Duration),
}
