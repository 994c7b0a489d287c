//! libibverbs, loaded at run time: InfiniBand, RoCE and soft-RoCE.
//!
//! One binary runs where there is no RDMA, and says so; building needs neither
//! headers nor libclang: see `sys/generate`.
//!
//! - [`Library`] loads the library.
//! - [`greeting`] is how endpoints come to connections: pure.

mod error;
pub mod greeting;
mod library;
mod memory;
mod sys;

pub use error::{Error, LoadError, Refused};
pub use library::Library;
pub use memory::{Access, MemoryId, Part, RemoteMemory};
