//! One-sided commits: a client's batches go by RMA write into its ring in the
//! logger's memory, and the completion that says that they lie there is the
//! acknowledgement. By a provider of libfabric, whose writes are requested with
//! *delivery complete*, or by [`VERBS`], where a read follows each write.
//! EL-1; docs/design/event-remote.md
//!
//! - [`RemoteRings`] is the server's part: it registers rings for remote writing
//!   and revokes that again (FENCE-1). The server's poll loop calls it.
//! - [`RemoteWriter`] is the client's: batches in, the place up to which they lie
//!   in the logger's memory out.
//! - [`Delivery`] says for which providers the completion can be trusted. With
//!   the others a client commits by messages, which the server acknowledges
//!   itself ([`CommitPath::Messages`](crate::message::CommitPath::Messages)).
//!
//! The ring itself, its reader and what makes a batch valid are those of
//! [`ring`](crate::ring), whichever way a batch was written.

mod delivery;
mod image;
mod libfabric;
mod port;
mod refusals;
mod rings;
mod transit;
mod verbs;
mod writer;

pub use delivery::Delivery;
pub use port::Port;
pub use rings::{RemoteRings, RingKey, load_ahead};
pub use writer::RemoteWriter;

use refrain_libfabric::native::LoadError;
use thiserror::Error;

/// The name of the provider that is libibverbs and not one of libfabric.
pub const VERBS: &str = "verbs";

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
    /// What does not fit, and what to do.
    #[error("{0}")]
    Refused(String),
}

/// libfabric or libibverbs cannot be loaded.
impl From<LoadError> for RemoteError {
    fn from(error: LoadError) -> Self {
        Self::Refused(error.to_string())
    }
}
