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
mod error;
mod image;
mod libfabric;
mod port;
mod refusals;
mod rings;
mod transit;
mod verbs;
mod writer;

pub use delivery::{Delivery, VERBS};
pub use error::RemoteError;
pub use port::Port;
pub use rings::{RemoteRings, RingKey, load_ahead};
pub use writer::RemoteWriter;
