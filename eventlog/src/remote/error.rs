//! Errors of one-sided commits.

use refrain_libfabric::native::LoadError;
use thiserror::Error;

/// Why one-sided commits do not work.
#[derive(Clone, Debug, Error)]
pub enum RemoteError {
    /// A provider of libfabric fails. The outcome of writes under way is unknown: the
    /// client joins the logger again and sends again what is not stable.
    #[error(transparent)]
    Libfabric(#[from] refrain_libfabric::Error),
    /// A device of verbs fails, or no device can be used.
    #[error(transparent)]
    Verbs(#[from] refrain_verbs::Error),
    /// An incompatible setting or value, with the action to take.
    #[error("{0}")]
    Refused(String),
}

/// libfabric or libibverbs cannot be loaded.
impl From<LoadError> for RemoteError {
    fn from(error: LoadError) -> Self {
        Self::Refused(error.to_string())
    }
}
