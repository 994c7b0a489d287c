//! One-sided commits: a client writes its batches by RMA into its ring in the
//! logger's memory, and the completion of a write acknowledges that they are
//! there. Writes go by a provider of libfabric, with
//! *delivery complete* requested, or by [`VERBS`], where a read follows each write.
//! EL-1; docs/design/event-remote.md
//!
//! - [`RemoteRings`] is the server's part: it registers rings for remote writing
//!   and revokes the access (FENCE-1). The server's poll loop calls it.
//! - [`RemoteWriter`] is the client's part: it takes batches, and returns the position up
//!   to which they are in the logger's memory.
//! - [`Delivery`] says for which providers the completion can be trusted. With
//!   the others a client commits by messages, which the server acknowledges
//!   itself ([`CommitPath::Messages`](crate::message::CommitPath::Messages)).
//!
//! The ring itself, its reader and the definition of a valid batch are those of
//! [`ring`](crate::ring) for every commit path.

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
