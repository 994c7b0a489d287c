//! Message logging: the family of protocols as pure state machines.
//!
//! Today this is what a protocol *keeps*; determinants, the gate's side of the
//! event logger, spilling to disk and replay join it here.
//!
//! Promises: no clock, thread, randomness or I/O inside, but for the disks of
//! [`store`] and for [`image`], which reads files for recovery and for people.
//! Knows nothing of sockets, NICs or processes.

pub mod assembly;
mod family;
pub mod image;
pub mod segment;
pub mod spill;
pub mod store;

pub use family::{Member, UnknownProtocol};
