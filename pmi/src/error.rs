//! Errors of this crate.

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
}
