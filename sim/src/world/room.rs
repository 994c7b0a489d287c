//! Buffers that simulated programs lend to their engine; the only unsafe code for that.

#![allow(
    unsafe_code,
    reason = "the engine takes the program's buffers by pointer"
)]

use refrain_transport::engine::{ReceiveBuffer, SendBuffer};
use std::cell::Cell;
use std::rc::Rc;

/// The buffer of a request. It consists of cells, so that it can be read while an engine holds its
/// address; everything runs on one thread. The creator of a room keeps it until the engine has
/// ended the request or is gone.
#[derive(Clone, Debug)]
pub struct Room(Rc<[Cell<u8>]>);

impl Room {
    /// A room that contains these bytes.
    pub fn holding(bytes: &[u8]) -> Self {
        Self(bytes.iter().copied().map(Cell::new).collect())
    }

    /// A room of `bytes` zeros.
    pub fn empty(bytes: usize) -> Self {
        Self((0..bytes).map(|_| Cell::new(0)).collect())
    }

    /// Its first bytes, at most `bytes`.
    pub fn read(&self, bytes: usize) -> Vec<u8> {
        self.0.iter().take(bytes).map(Cell::get).collect()
    }

    /// Where it begins. Valid as long as the room.
    pub fn base(&self) -> *mut u8 {
        self.0.as_ptr().cast::<u8>().cast_mut()
    }

    /// Lends the room to a send.
    pub fn to_send(&self) -> SendBuffer {
        // SAFETY: the maker keeps the room as long as the request; cells may be
        // read by pointer at any time on their one thread.
        unsafe { SendBuffer::bytes(self.base(), self.0.len()) }
    }

    /// Lends the room to a receive.
    pub fn to_receive(&self) -> ReceiveBuffer {
        // SAFETY: as above, and written: they are cells.
        unsafe { ReceiveBuffer::bytes(self.base(), self.0.len()) }
    }
}
