//! What the bindings of libfabric and of libibverbs have in common.
//!
//! - [`Symbols`] loads a library at run time; [`LoadError`] says why it could not.
//!   A binary that is built on these bindings starts where the libraries are missing,
//!   and says so when one is needed.
//! - [`MessageEndpoint`] is what users of an endpoint may expect, whichever the library.
//! - [`Access`], [`MemoryId`], [`Part`] and [`RemoteMemory`] name registered memory.
//! - [`Refused`] and [`Completion`] are how operations of an endpoint begin and end.
//!
//! Does not know which symbols a library has, or how endpoints do what they do.

mod endpoint;
mod load_error;
mod memory;
mod operation;
mod symbols;

pub use endpoint::{CompletionOf, EndpointError, MessageEndpoint, Removal};
pub use load_error::{LoadError, Obstacle};
pub use memory::{Access, MemoryId, Part, RemoteMemory};
pub use operation::{Completion, Kind, Refused, TOKEN_OF_INJECTED};
pub use symbols::{Native, Symbols, text};
