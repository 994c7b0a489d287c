//! Messages without payload need no lender.

#![allow(unsafe_code, reason = "empty buffers need no lender")]

use refrain_transport::engine::{ReceiveBuffer, SendBuffer};

pub fn send_buffer() -> SendBuffer {
    // SAFETY: no bytes are lent.
    unsafe { SendBuffer::bytes(core::ptr::NonNull::dangling().as_ptr(), 0) }
}

pub fn receive_buffer() -> ReceiveBuffer {
    // SAFETY: no bytes are lent.
    unsafe { ReceiveBuffer::bytes(core::ptr::NonNull::dangling().as_ptr(), 0) }
}
