//! The library of a program: [`World`], its requests, statistics and checkpoints.
//!
//! A program calls [`World::init`] and communicates; `refrain run -n N -- program` starts it.
//! Without a launcher, a program is a job of one rank.
//!
//! This crate must not know how processes are started and ended.
//!
//! ```no_run
//! use refrain::{World, from, to};
//!
//! let mut world = World::init()?;
//! let peer = 1 - world.rank().0;
//! if world.rank().0 == 0 {
//!     world.send(b"replayed after a death", to(peer).tag(7))?;
//! } else {
//!     let mut text = [0; 64];
//!     let status = world.recv(&mut text, from(peer).tag(7))?;
//!     assert_eq!(&text[..status.bytes as usize], b"replayed after a death");
//! }
//! world.finalize()?;
//! # Ok::<(), refrain::Error>(())
//! ```

mod error;
mod protocol;
mod stdio;
mod world;

pub use error::{Error, EventsFull, LogFull};
pub use refrain_job::statistics::{self, Statistics};
pub use refrain_ring::{Incarnation, Rank, Ssn, placement};
pub use refrain_transport::engine::{Bytes, Data, Stall};
pub use refrain_transport::layout::Layout;
pub use world::collective;
pub use world::{
    Checkpointed, Ended, Group, Handle, Image, Incoming, Logged, Message, MessageHandle, Operation,
    Outgoing, ReceiveBuffer, Request, Restored, Scope, SendBuffer, SendTo, Source, Status, World,
    check_process, from, from_any, to,
};
