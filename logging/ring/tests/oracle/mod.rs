//! The behaviour of an arena and its channels, specified without their code: lists of
//! records and chunks instead of memory and positions.

mod channel;
mod lure;
mod memory;

pub use channel::{Channel, Kind, Message, Trim};
pub use memory::Memory;
