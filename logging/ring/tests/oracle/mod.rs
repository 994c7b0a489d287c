//! What an arena and its channels must do, told without their code: lists of
//! records and chunks instead of memory and positions.

mod channel;
mod lure;
mod memory;

pub use channel::{Channel, Kind, Message, Trim};
pub use memory::Memory;
