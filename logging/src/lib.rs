//! Message logging: the family of protocols as pure state machines.
//!
//! Contains the data that a protocol *keeps*: the payload log beyond memory, and the
//! determinants ([`determinant`]).
//!
//! Promises: no clock, thread, randomness or I/O, except for the disks of
//! [`store`] and for [`image`], which reads files for recovery and for people.
//! Knows nothing of sockets, NICs or processes.

pub mod assembly;
mod causal;
pub mod determinant;
mod family;
pub mod held;
pub mod image;
pub mod pessimist;
pub mod rounds;
pub mod segment;
pub mod spill;
pub mod store;
mod stores;
mod ticket;

pub use causal::LeftInLogs;
pub use family::{EventStore, Member, UnknownProtocol};
pub use stores::Stores;
