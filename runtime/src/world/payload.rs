//! Data to send and room to receive into, as programs give them.

use crate::Error;
use refrain_transport::layout::Layout;

/// Data to send: bytes, or those of them that a [`Layout`] picks.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) layout: Option<&'a Layout>,
}

/// Room to receive into: bytes, or those of them that a [`Layout`] picks.
#[derive(Debug)]
pub struct Incoming<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) layout: Option<&'a Layout>,
}

impl<'a> Outgoing<'a> {
    /// Those bytes of `data` that `layout` picks, in its order.
    ///
    /// # Errors
    /// When the layout reaches beyond `data`.
    pub fn with_layout(data: &'a [u8], layout: &'a Layout) -> Result<Self, Error> {
        layout
            .check_send(data.len())
            .map_err(|error| Error::Argument(error.to_string()))?;
        Ok(Self {
            bytes: data,
            layout: Some(layout),
        })
    }
}

impl<'a> Incoming<'a> {
    /// Those bytes of `room` that `layout` picks, in its order.
    ///
    /// # Errors
    /// When the layout reaches beyond `room`, or names a byte twice.
    pub fn with_layout(room: &'a mut [u8], layout: &'a Layout) -> Result<Self, Error> {
        layout
            .check_receive(room.len())
            .map_err(|error| Error::Argument(error.to_string()))?;
        Ok(Self {
            bytes: room,
            layout: Some(layout),
        })
    }
}

impl<'a> From<&'a [u8]> for Outgoing<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            layout: None,
        }
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
    fn from(bytes: &'a mut [u8]) -> Self {
        Self {
            bytes,
            layout: None,
        }
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
