//! One-sided commits: a client's batches go by RMA write into its ring in the
//! logger's memory, and the completion that says that they lie there is the
//! acknowledgement. By a provider of libfabric, whose writes are asked for with
//! *delivery complete*, or by [`VERBS`], where a read goes behind each write.
//! EL-1; docs/design/event-remote.md
//!
//! - [`RemoteRings`] is the server's part: it registers rings for remote writing
//!   and revokes that again (FENCE-1). The server's poll loop calls it.
//! - [`RemoteWriter`] is the client's: batches in, the place up to which they lie
//!   in the logger's memory out.
//! - [`Delivery`] says of which providers the completion may be believed. With
//!   the others a client commits by messages, which the server acknowledges
//!   itself ([`Way::Messages`](crate::message::Way::Messages)).
//!
//! The ring itself, its reader and what makes a batch valid are those of
//! [`ring`](crate::ring): whoever reads it does not know who wrote.

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
pub use libfabric::LibfabricPort;
pub use port::{EndpointPort, Port, PortError, ProviderPort, WritingEndpoint};
pub use rings::{Loaded, RemoteRings, RingKey};
pub use verbs::{VERBS, VerbsPort};
pub use writer::RemoteWriter;

use refrain_libfabric::Error;
use refrain_native::LoadError;
use thiserror::Error as ThisError;

/// What can go wrong with one-sided commits.
#[derive(Debug, ThisError)]
pub enum RemoteError {
    /// There is no libfabric, or no libibverbs.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// libfabric does not offer what is needed.
    #[error(
        "libfabric {library} offers no provider {provider:?} here that writes remote memory: choose \
         one of {choose_from} (see `refrain info --providers`), or commit by messages"
    )]
    NoProvider {
        /// Which was asked for.
        provider: String,
        /// Version of the library.
        library: String,
        /// Those that there are.
        choose_from: String,
    },
    /// Nobody has found out what a completion of this provider means.
    #[error(
        "provider {provider:?} is not known to complete writes only when they are in the logger's \
         memory: commit by messages"
    )]
    NotHonoured {
        /// Which.
        provider: String,
    },
    /// Client and logger do not speak the same.
    #[error(
        "the logger's ring is reached by provider {theirs:?}, this rank has {ours:?}: choose the \
         same on both sides, or commit by messages"
    )]
    OtherProvider {
        /// The logger's.
        theirs: String,
        /// The client's.
        ours: String,
    },
    /// What the logger says of its ring cannot be.
    #[error("the logger's ring cannot begin at {base:#x}: it would not fit behind that")]
    Base {
        /// As it said.
        base: u64,
    },
    /// The logger says that it has stored more than was written.
    #[error("the logger has stored the ring up to {told}, only {written} were written")]
    Consumed {
        /// As it said.
        told: u64,
        /// What was written.
        written: u64,
    },
    /// No batch has this length.
    #[error("a batch of {bytes} bytes: they have 1 to 4096")]
    Batch {
        /// As given.
        bytes: usize,
    },
    /// As many clients as the logger was opened for.
    #[error("{clients_max} clients already write into this logger's memory: commit by messages")]
    Clients {
        /// How many those are.
        clients_max: usize,
    },
    /// The memory of a ring or of a client's image of it could not be had.
    #[error("cannot make the memory of an event ring: {0}")]
    Memory(#[from] std::io::Error),
    /// A device of verbs fails, or there is none that can be used. What was under
    /// way has an unknown outcome, as with a provider.
    #[error(transparent)]
    Verbs(#[from] refrain_verbs::Error),
    /// The kernel lets no device write that file.
    #[error(
        "the event ring cannot be registered ({0}): since Linux 6.5 devices may not write files of disks; \
         start the logger with --rings and a folder in memory, such as one in /dev/shm"
    )]
    RingFile(refrain_verbs::Error),
    /// The logger's socket lives, its port of verbs does not answer.
    #[error(
        "the logger's port of verbs was not heard for {seconds} s: look whether both ports are on one \
         network, or commit by messages"
    )]
    Unconnected {
        /// For how long, in seconds.
        seconds: u64,
    },
    /// The provider fails: what was under way has an unknown outcome. The client
    /// joins the logger again and sends again what is not stable.
    #[error(transparent)]
    Provider(#[from] Error),
}
