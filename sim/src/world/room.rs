//! The one place where simulated programs lend memory to their engine.

#![allow(
    unsafe_code,
    reason = "the engine takes the program's buffers by pointer"
)]

use refrain_transport::engine::{ReceiveBuffer, SendBuffer};
use std::cell::Cell;
use std::rc::Rc;

/// Memory of a request. Of cells, so that it may be looked at while an engine
/// holds its address; everything runs on one thread. The maker of a room keeps
/// it until their engine has ended the request, or is gone.
#[derive(Clone, Debug)]
pub struct Room(Rc<[Cell<u8>]>);

impl Room {
    /// Holds these bytes.
    pub fn holding(bytes: &[u8]) -> Self {
        Self(bytes.iter().copied().map(Cell::new).collect())
    }

    /// Empty room.
    pub fn empty(bytes: usize) -> Self {
        Self((0..bytes).map(|_| Cell::new(0)).collect())
    }

    /// Its first bytes.
    pub fn read(&self, bytes: usize) -> Vec<u8> {
        self.0.iter().take(bytes).map(Cell::get).collect()
    }

    fn base(&self) -> *mut u8 {
        self.0.as_ptr().cast::<u8>().cast_mut()
    }

    /// Lends it to a send.
    pub fn to_send(&self) -> SendBuffer {
        // SAFETY: the maker keeps the room as long as the request; cells may be
        // read by pointer at any time on their one thread.
        unsafe { SendBuffer::bytes(self.base(), self.0.len()) }
    }

    /// Lends it to a receive.
    pub fn to_receive(&self) -> ReceiveBuffer {
        // SAFETY: as above, and written: they are cells.
        unsafe { ReceiveBuffer::bytes(self.base(), self.0.len()) }
    }
}
