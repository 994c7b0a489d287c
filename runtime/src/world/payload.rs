//! Data to send and room to receive into, as programs give them.

#![allow(
    unsafe_code,
    reason = "takes memory by pointer where it belongs to a program in another language"
)]

use crate::Error;
use core::marker::PhantomData;
use refrain_transport::layout::Layout;

/// Data to send: bytes, or those of them that a [`Layout`] picks.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    pub(super) base: *const u8,
    pub(super) bytes: usize,
    pub(super) layout: Option<&'a Layout>,
    borrow: PhantomData<&'a [u8]>,
}

/// Room to receive into: bytes, or those of them that a [`Layout`] picks.
#[derive(Debug)]
pub struct Incoming<'a> {
    pub(super) base: *mut u8,
    pub(super) bytes: usize,
    pub(super) layout: Option<&'a Layout>,
    borrow: PhantomData<&'a mut [u8]>,
}

impl<'a> Outgoing<'a> {
    /// `bytes` bytes from `base` on, of a program in another language.
    ///
    /// # Safety
    /// Until the operation that it is given to is complete, or the world is
    /// dropped, the bytes must be readable and nobody may change them. `bytes` is
    /// at most `isize::MAX`.
    #[inline]
    pub unsafe fn raw(base: *const u8, bytes: usize) -> Self {
        Self {
            base,
            bytes,
            layout: None,
            borrow: PhantomData,
        }
    }

    /// Those bytes of `data` that `layout` picks, in its order.
    ///
    /// # Errors
    /// When the layout reaches beyond `data`.
    pub fn with_layout(data: &'a [u8], layout: &'a Layout) -> Result<Self, Error> {
        layout
            .check_send(data.len())
            .map_err(|error| Error::Argument(error.to_string()))?;
        Ok(Self {
            layout: Some(layout),
            ..data.into()
        })
    }
}

impl<'a> Incoming<'a> {
    /// `bytes` bytes from `base` on, of a program in another language. What they
    /// hold does not matter.
    ///
    /// # Safety
    /// Until the operation that it is given to is complete, or the world is
    /// dropped, the bytes must be writable and nobody else may touch them. `bytes`
    /// is at most `isize::MAX`.
    #[inline]
    pub unsafe fn raw(base: *mut u8, bytes: usize) -> Self {
        Self {
            base,
            bytes,
            layout: None,
            borrow: PhantomData,
        }
    }

    /// The same room once more.
    ///
    /// # Safety
    /// Only one of the two may be in use at a time.
    pub(super) unsafe fn again(&self) -> Self {
        Self { ..*self }
    }

    /// Those bytes of `room` that `layout` picks, in its order.
    ///
    /// # Errors
    /// When the layout reaches beyond `room`, or names a byte twice.
    pub fn with_layout(room: &'a mut [u8], layout: &'a Layout) -> Result<Self, Error> {
        layout
            .check_receive(room.len())
            .map_err(|error| Error::Argument(error.to_string()))?;
        Ok(Self {
            layout: Some(layout),
            ..room.into()
        })
    }
}

impl<'a> From<&'a [u8]> for Outgoing<'a> {
    #[inline]
    fn from(data: &'a [u8]) -> Self {
        // SAFETY: borrowed for `'a`; no operation keeps it for longer.
        unsafe { Self::raw(data.as_ptr(), data.len()) }
    }
}

impl<'a> From<&'a Vec<u8>> for Outgoing<'a> {
    #[inline]
    fn from(bytes: &'a Vec<u8>) -> Self {
        bytes.as_slice().into()
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Outgoing<'a> {
    #[inline]
    fn from(bytes: &'a [u8; N]) -> Self {
        bytes.as_slice().into()
    }
}

impl<'a> From<&'a mut [u8]> for Incoming<'a> {
    #[inline]
    fn from(room: &'a mut [u8]) -> Self {
        // SAFETY: borrowed for `'a`, exclusively; no operation keeps it for longer.
        unsafe { Self::raw(room.as_mut_ptr(), room.len()) }
    }
}

impl<'a> From<&'a mut Vec<u8>> for Incoming<'a> {
    #[inline]
    fn from(bytes: &'a mut Vec<u8>) -> Self {
        bytes.as_mut_slice().into()
    }
}

impl<'a, const N: usize> From<&'a mut [u8; N]> for Incoming<'a> {
    #[inline]
    fn from(bytes: &'a mut [u8; N]) -> Self {
        bytes.as_mut_slice().into()
    }
}
