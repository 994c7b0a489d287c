//! libfabric, loaded at run time.
//!
//! One binary runs with every libfabric from 1.17 on, and starts without one: an error
//! reports that it is missing. The crate asks for API 1.17, which newer libraries
//! provide. A build needs neither headers nor libclang: see `sys/generate`.
//!
//! - [`Library`] loads a file and asks its providers what they offer.
//! - [`Info`] is one offer.
//! - [`native`] holds what the bindings of libibverbs share.
//! - [`Endpoint`] is everything that one rank opens of an offer. It sends and
//!   receives messages out of registered memory, reads and writes the memory of
//!   peers, and reports [`Completion`]s.
//!
//! What this crate promises: objects are closed in the right order; memory of
//! operations in flight is not freed; no call per operation allocates; an error
//! carries the provider's own words. It does not know frames, ranks,
//! matching, acknowledgements. It never uses the providers' matching by tags or
//! `FI_PEEK` (libfabric 1.17 `shm` swallows the message), never
//! `FI_OPT_MIN_MULTI_RECV` (crashes the same), and draws no conclusion from a
//! completion but that a buffer is free again (`ofi_rxm` ignores
//! `FI_DELIVERY_COMPLETE` on messages).
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
