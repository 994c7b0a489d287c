//! The user's buffers while an operation is under way.

#![allow(
    unsafe_code,
    reason = "holds the user's buffers by pointer while requests are under way"
)]

use crate::fabric::Landing;
use crate::layout::Layout;
use core::ptr::NonNull;
use refrain_ring::copy::{Target, into_log, out_of_log};

/// Data being sent: bytes of the user, or the engine's own copy of them.
#[derive(Debug)]
pub struct SendBuffer {
    base: *const u8,
    message_bytes: u64,
    /// Null for bytes in one piece.
    layout: *const Layout,
    /// Set when the user's buffer had to be given back early, or other bytes are sent.
    owned: Option<Box<[u8]>>,
}

/// Room being received into.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveBuffer {
    base: *mut u8,
    room_bytes: u64,
    /// Null for room in one piece.
    layout: *const Layout,
}

impl SendBuffer {
    /// Bytes that lie in one piece.
    ///
    /// # Safety
    /// The bytes must stay readable and unchanged until the send is complete or
    /// detached.
    #[inline]
    pub unsafe fn bytes(base: *const u8, bytes: usize) -> Self {
        Self {
            base,
            message_bytes: bytes as u64,
            layout: core::ptr::null(),
            owned: None,
        }
    }

    /// Bytes that `layout` picks from `base`.
    ///
    /// # Safety
    /// As [`SendBuffer::bytes`], for `layout.span_bytes()` bytes; and the layout
    /// must live as long.
    pub unsafe fn laid_out(base: *const u8, layout: &Layout) -> Self {
        Self {
            base,
            message_bytes: layout.message_bytes(),
            layout,
            owned: None,
        }
    }

    /// Bytes that the engine has itself.
    pub(super) fn owned(bytes: Box<[u8]>) -> Self {
        Self {
            base: bytes.as_ptr(),
            message_bytes: bytes.len() as u64,
            layout: core::ptr::null(),
            owned: Some(bytes),
        }
    }

    /// Length of the message.
    #[inline]
    pub fn message_bytes(&self) -> u64 {
        self.message_bytes
    }

    /// Copies the message from `offset` on into `out`.
    #[inline]
    pub(super) fn pack(&self, offset: u64, out: &mut [u8], target: Target) {
        debug_assert!(offset + out.len() as u64 <= self.message_bytes());
        // SAFETY: null, or alive by the constructor's contract.
        match unsafe { self.layout.as_ref() } {
            // SAFETY: inside the user's buffer, by the constructor's contract;
            // log memory and user memory are apart.
            None => unsafe {
                into_log(
                    self.base.add(offset as usize),
                    out.as_mut_ptr(),
                    out.len(),
                    target,
                );
            },
            Some(layout) => {
                // SAFETY: the user lent the layout's whole span for reading.
                let user = unsafe { core::slice::from_raw_parts(self.base, layout.span_bytes()) };
                layout.pack(user, offset, out);
            }
        }
    }

    /// Copies what is not packed yet, so that the user's buffer is free.
    pub(super) fn detach(&mut self, packed_bytes: u64) {
        let bytes = self.message_bytes() as usize;
        let mut copy = vec![0; bytes].into_boxed_slice();
        self.pack(
            packed_bytes,
            &mut copy[packed_bytes as usize..],
            Target::Cached,
        );
        self.base = copy.as_ptr();
        self.layout = core::ptr::null();
        self.owned = Some(copy);
    }
}

impl ReceiveBuffer {
    /// Room that lies in one piece.
    ///
    /// # Safety
    /// The bytes must stay writable and untouched by others until the receive
    /// is complete, cancelled or detached.
    #[inline]
    pub unsafe fn bytes(base: *mut u8, bytes: usize) -> Self {
        Self {
            base,
            room_bytes: bytes as u64,
            layout: core::ptr::null(),
        }
    }

    /// Room that `layout` picks from `base`.
    ///
    /// # Safety
    /// As [`ReceiveBuffer::bytes`], for `layout.span_bytes()` bytes; and the
    /// layout must live as long.
    pub unsafe fn laid_out(base: *mut u8, layout: &Layout) -> Self {
        Self {
            base,
            room_bytes: layout.message_bytes(),
            layout,
        }
    }

    /// No room: everything that comes is dropped.
    pub(super) fn nowhere() -> Self {
        Self {
            base: core::ptr::NonNull::dangling().as_ptr(),
            room_bytes: 0,
            layout: core::ptr::null(),
        }
    }

    /// How much fits.
    #[inline]
    pub fn room_bytes(&self) -> u64 {
        self.room_bytes
    }

    /// Copies `data`, which is the message from `offset` on; what does not fit
    /// is dropped.
    #[inline]
    pub(super) fn unpack(&self, offset: u64, data: &[u8]) {
        let room = self.room_bytes().saturating_sub(offset);
        let data = &data[..data.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        if data.is_empty() {
            return;
        }
        // SAFETY: null, or alive by the constructor's contract.
        match unsafe { self.layout.as_ref() } {
            // SAFETY: clipped to the user's buffer; log and user memory are apart.
            None => unsafe {
                out_of_log(data.as_ptr(), self.base.add(offset as usize), data.len());
            },
            Some(layout) => {
                // SAFETY: the user lent the layout's whole span, to this request
                // alone.
                let user =
                    unsafe { core::slice::from_raw_parts_mut(self.base, layout.span_bytes()) };
                layout.unpack(offset, data, user);
            }
        }
    }

    /// Room for a payload that is the message from `offset` on, if all of it
    /// fits and lies in one piece. The engine does not say that the receive is
    /// over, nor gives the buffer back, before that landing has ended.
    pub(super) fn lend(&self, offset: u64, bytes: usize, token: u64) -> Option<Landing> {
        let end = offset.checked_add(bytes as u64)?;
        if end > self.room_bytes {
            return None;
        }
        // SAFETY: null, or alive by the constructor's contract.
        let begin = match unsafe { self.layout.as_ref() } {
            None => 0,
            Some(layout) => layout.is_contiguous()?,
        };
        // SAFETY: inside the user's buffer, which is this request's alone until
        // the receive is over.
        unsafe {
            let to = self.base.add(begin + offset as usize);
            Some(Landing::new(NonNull::new(to)?, bytes, token))
        }
    }
}

/// Memory of the engine that payload lands in.
#[derive(Debug)]
pub(super) struct Staging(Box<[u8]>);

/// Staging memory that the fabric writes to. It leaks when dropped: it must not
/// be freed before the fabric is through with it.
#[derive(Debug)]
pub(super) struct Lent(NonNull<[u8]>);

impl Staging {
    pub(super) fn new(bytes: usize) -> Self {
        Self(vec![0; bytes].into())
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.len()
    }

    /// What has landed there.
    pub(super) fn payload(&self, bytes: usize) -> &[u8] {
        &self.0[..bytes]
    }

    pub(super) fn lend(self, bytes: usize, token: u64) -> (Lent, Landing) {
        assert!(bytes <= self.capacity());
        let memory = NonNull::from(Box::leak(self.0));
        // SAFETY: nobody else has a pointer to it, and it is a box again only by
        // `Lent::end`.
        let landing = unsafe { Landing::new(memory.cast(), bytes, token) };
        (Lent(memory), landing)
    }
}

impl Lent {
    /// To be called when the landing has ended, or its fabric was closed.
    pub(super) fn end(self) -> Staging {
        // SAFETY: it was a box, and nobody writes to it any more.
        Staging(unsafe { Box::from_raw(self.0.as_ptr()) })
    }
}
