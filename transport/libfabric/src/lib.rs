//! libfabric, loaded at run time.
//!
//! One binary runs with every libfabric from 1.17 on, and starts without one: then an error reports
//! that it is missing. The crate requests API 1.17, which newer libraries provide. A build needs
//! neither headers nor libclang: see `sys/generate`.
//!
//! - [`Library`] loads a file and queries the offers of its providers.
//! - [`Info`] is one offer.
//! - [`native`] has the code that is shared with the bindings of libibverbs.
//! - [`Endpoint`] has all objects that one rank opens of an offer. It sends and receives messages
//!   in registered memory, reads and writes the memory of peers, and reports [`Completion`]s.
//!
//! Promises: objects are closed in the right order; memory of operations in flight is not freed; no
//! call of an operation allocates; an error contains the provider's own text. The crate does not
//! know frames, ranks, matching, acknowledgements. It never uses the providers' matching by tags or
//! `FI_PEEK` (`shm` of libfabric 1.17 drops the message), nor `FI_OPT_MIN_MULTI_RECV` (the same
//! provider crashes). From a completion it concludes only that a buffer is free again (`ofi_rxm`
//! ignores `FI_DELIVERY_COMPLETE` on messages).
//!
//! A process that is killed leaves the memory files of its `shm` provider in
//! `/dev/shm`; the launcher removes them.

mod endpoint;
mod error;
mod hints;
mod info;
mod library;
pub mod native;
mod query;
mod sys;

/// Names and values of libfabric's flags and errors, as in its manual pages.
pub use sys::constants;

pub use endpoint::{Completion, Endpoint, EndpointOptions, PARTS_MAX, PeerAddress};
pub use error::{Error, Refused};
pub use hints::{EndpointType, Hints, MR_MODES_HANDLED};
pub use info::Info;
pub use library::{Library, Version};
pub use native::{Access, Kind, MemoryId, MessageEndpoint, Part, RemoteMemory, TOKEN_OF_INJECTED};
