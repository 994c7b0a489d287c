//! Message logging: the family of protocols as pure state machines.
//!
//! What a protocol *keeps*: the payload log beyond memory, and the determinants
//! ([`determinant`]). Replay joins them here.
//!
//! Promises: no clock, thread, randomness or I/O inside, but for the disks of
//! [`store`] and for [`image`], which reads files for recovery and for people.
//! Knows nothing of sockets, NICs or processes.

pub mod assembly;
pub mod determinant;
mod family;
pub mod image;
pub mod pessimist;
pub mod segment;
pub mod spill;
pub mod store;

pub use family::{Member, UnknownProtocol};
