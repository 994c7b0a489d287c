//! The one place where tests lend memory to the engine.

#![allow(
    unsafe_code,
    reason = "the engine takes the program's buffers by pointer"
)]

use refrain_transport::engine::{ReceiveBuffer, SendBuffer};
use refrain_transport::layout::Layout;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Memory of a simulated program. Made of cells, so that a test may read and overwrite it while an
/// engine holds its address; everything runs on one thread. The [`Rig`](crate::rig::Rig) keeps
/// every room alive longer than its engines.
#[derive(Clone, Debug)]
pub struct Room(Rc<[Cell<u8>]>);

impl Room {
    pub fn holding(bytes: &[u8]) -> Self {
        Self(bytes.iter().copied().map(Cell::new).collect())
    }

    pub fn read(&self) -> Vec<u8> {
        self.0.iter().map(Cell::get).collect()
    }

    /// Whether the first bytes no longer have this value.
    pub fn starts_otherwise(&self, value: u8) -> bool {
        self.0.iter().take(8).any(|byte| byte.get() != value)
    }

    /// Overwrites everything with one value.
    pub fn fill(&self, value: u8) {
        self.0.iter().for_each(|byte| byte.set(value));
    }

    fn base(&self) -> *mut u8 {
        self.0.as_ptr().cast::<u8>().cast_mut()
    }
}

/// Lends a whole room to a send.
pub fn send_buffer(room: &Room) -> SendBuffer {
    // SAFETY: the rig keeps the room as long as its engines; cells may be read
    // by pointer at any time on their one thread.
    unsafe { SendBuffer::bytes(room.base(), room.0.len()) }
}

/// Lends the bytes of a room that a layout picks to a send.
pub fn send_layout(room: &Room, layout: &Arc<Layout>) -> SendBuffer {
    layout
        .check_send(room.0.len())
        .expect("the layout is of this room");
    // SAFETY: as above; the layout's span was checked.
    unsafe { SendBuffer::laid_out(room.base(), 1, Arc::clone(layout)) }
        .expect("a message of this size")
}

/// Lends the first `bytes` of a room to a receive.
pub fn receive_buffer(room: &Room, bytes: usize) -> ReceiveBuffer {
    assert!(bytes <= room.0.len());
    // SAFETY: in bounds and kept by the rig; cells may be written by pointer.
    unsafe { ReceiveBuffer::bytes(room.base(), bytes) }
}

/// Lends the bytes of a room that a layout picks to a receive.
pub fn receive_layout(room: &Room, layout: &Arc<Layout>) -> ReceiveBuffer {
    layout
        .check_receive(room.0.len())
        .expect("the layout is of this room");
    // SAFETY: as above; the layout's span was checked.
    unsafe { ReceiveBuffer::laid_out(room.base(), 1, Arc::clone(layout)) }.expect("no overlap")
}

/// Bytes from `start` on of what copies of a layout pick, the first copy at `base` of a room.
#[derive(Debug)]
pub struct Window<'a> {
    pub room: &'a Room,
    pub base: usize,
    pub layout: &'a Arc<Layout>,
    pub start: u64,
    pub bytes: u64,
}

impl Window<'_> {
    /// Where the first copy is, if all that are needed are in the room.
    fn base(&self) -> *mut u8 {
        let copies = (self.start + self.bytes).div_ceil(self.layout.message_bytes()) as isize;
        let (low, end) = self.layout.bounds();
        let last = (copies - 1) * self.layout.extent_bytes();
        let base = self.base as isize;
        assert!(base + low + last.min(0) >= 0, "it begins in the room");
        assert!(
            base + end + last.max(0) <= self.room.0.len() as isize,
            "it ends there"
        );
        self.room.base().wrapping_add(self.base)
    }
}

/// Copies between two rooms.
pub fn copy(from: &Window<'_>, into: &Window<'_>) {
    assert!(!Rc::ptr_eq(&from.room.0, &into.room.0), "they are apart");
    // SAFETY: all bytes were checked to be in the rooms, which consist of cells.
    unsafe {
        let data = SendBuffer::within(from.base(), from.layout, from.start, from.bytes);
        let room = ReceiveBuffer::within(into.base(), into.layout, into.start, into.bytes);
        data.copy_to(&room);
    }
}
