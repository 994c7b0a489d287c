//! Code that the bindings of libfabric and of libibverbs share.
//!
//! - [`Symbols`] loads a library at run time; [`LoadError`] reports a failure. A binary with these
//!   bindings starts without the libraries, and fails when one is needed.
//! - [`MessageEndpoint`] is the contract of the endpoints of both libraries.
//! - [`Access`], [`MemoryId`], [`Part`] and [`RemoteMemory`] name registered memory.
//! - [`Refused`] and [`Completion`]: an operation was not begun, or has ended.
//!
//! It does not know the symbols of a library, nor how endpoints work.

mod endpoint;
mod load_error;
mod memory;
mod operation;
mod symbols;

pub use endpoint::{CompletionOf, EndpointError, MessageEndpoint, Removal};
pub use load_error::{LoadError, Native, Obstacle};
pub use memory::{Access, MemoryId, Part, RemoteMemory};
pub use operation::{Completion, Kind, Refused, TOKEN_OF_INJECTED};
pub use symbols::{Symbols, text};
