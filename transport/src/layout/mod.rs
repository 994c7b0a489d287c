//! Non-contiguous data: which bytes of a buffer make up a message.
//!
//! A [`Layout`] is what MPI calls a derived datatype (MPI-4.1, 5.1), in bytes:
//! a *type map* of blocks, in message order, perhaps repeated at a stride. The
//! message is the blocks one behind the other. [`Layout::pieces`] walks any
//! part of it, so that a message can be packed and unpacked fragment by
//! fragment, each starting anywhere; [`Layout::pack`] and [`Layout::unpack`] do
//! so between slices.

mod blocks;
mod pack;
mod pieces;

#[cfg(test)]
mod tests;

pub use pieces::{Piece, Pieces};

use blocks::Blocks;
use thiserror::Error;

/// No buffer is longer: the limit of Rust's allocations and slices.
const SPAN_BYTES_MAX: usize = isize::MAX as usize;

/// Which bytes of a buffer make up a message. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Layout {
    /// One item; the message is `count` of them at a stride of `extent_bytes`.
    blocks: Blocks,
    extent_bytes: usize,
    count: usize,
    message_bytes: u64,
    span_bytes: usize,
    overlaps: bool,
}

/// Why blocks are not a layout, or a layout does not suit a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// A block ends beyond every possible buffer.
    #[error(
        "block of {bytes} bytes at offset {offset_bytes} ends beyond the largest possible buffer: check the units of the layout, they are bytes"
    )]
    Block {
        /// Where the block begins.
        offset_bytes: usize,
        /// Its length.
        bytes: usize,
    },
    /// The repeated blocks end beyond every possible buffer.
    #[error(
        "{count} items at a stride of {stride_bytes} bytes end beyond the largest possible buffer: check the units of the layout, they are bytes"
    )]
    Span {
        /// How many items.
        count: usize,
        /// From one to the next.
        stride_bytes: usize,
    },
    /// More message bytes than a 64-bit number counts (blocks overlap).
    #[error("the blocks of a layout add up to more than 2^64 message bytes: it repeats too often")]
    Message,
    /// The buffer ends before the layout does.
    #[error(
        "the layout spans {span_bytes} bytes, its buffer has {buffer_bytes}: give a larger buffer or fewer blocks"
    )]
    Buffer {
        /// Length that is needed.
        span_bytes: usize,
        /// Length that is there.
        buffer_bytes: usize,
    },
    /// Some byte would be received twice.
    #[error(
        "the blocks of a layout to receive into overlap: only layouts to send from may name a byte twice"
    )]
    Overlap,
}

impl Layout {
    /// The first `bytes` of the buffer.
    pub fn contiguous(bytes: usize) -> Self {
        Self {
            blocks: Blocks::one(0, bytes),
            extent_bytes: bytes,
            count: 1,
            message_bytes: bytes as u64,
            span_bytes: bytes,
            overlaps: false,
        }
    }

    /// `count` blocks of `block_bytes`, each beginning `stride_bytes` behind
    /// the beginning of the one before (MPI's hvector).
    ///
    /// # Errors
    /// [`LayoutError::Span`], [`LayoutError::Block`] or
    /// [`LayoutError::Message`].
    pub fn vector(
        count: usize,
        block_bytes: usize,
        stride_bytes: usize,
    ) -> Result<Self, LayoutError> {
        Self::repeated(Blocks::checked(&[(0, block_bytes)])?, stride_bytes, count)
    }

    /// Blocks of (offset, length) in bytes, in message order, which need not be
    /// that of the buffer (MPI's hindexed).
    ///
    /// # Errors
    /// [`LayoutError::Block`] or [`LayoutError::Message`].
    pub fn indexed(blocks: &[(usize, usize)]) -> Result<Self, LayoutError> {
        Self::repeated(Blocks::checked(blocks)?, 0, 1)
    }

    /// `count` structs at a stride of `extent_bytes`, of each the fields of
    /// (offset, length) in bytes, in message order (MPI's struct, resized).
    ///
    /// # Errors
    /// [`LayoutError::Block`], [`LayoutError::Span`] or
    /// [`LayoutError::Message`].
    pub fn structure(
        fields: &[(usize, usize)],
        extent_bytes: usize,
        count: usize,
    ) -> Result<Self, LayoutError> {
        Self::repeated(Blocks::checked(fields)?, extent_bytes, count)
    }

    fn repeated(blocks: Blocks, stride_bytes: usize, count: usize) -> Result<Self, LayoutError> {
        if count == 0 || blocks.bytes() == 0 {
            return Ok(Self::contiguous(0));
        }
        let span_bytes = (count - 1)
            .checked_mul(stride_bytes)
            .and_then(|last| last.checked_add(blocks.end()))
            .filter(|&span| span <= SPAN_BYTES_MAX)
            .ok_or(LayoutError::Span {
                count,
                stride_bytes,
            })?;
        let message_bytes = (blocks.bytes())
            .checked_mul(count as u64)
            .ok_or(LayoutError::Message)?;
        let overlaps = blocks.overlap(stride_bytes, count);
        let layout = Self {
            blocks,
            extent_bytes: stride_bytes,
            count,
            message_bytes,
            span_bytes,
            overlaps,
        };
        Ok(layout.merged())
    }

    /// Blocks that follow one another without a gap become one block.
    fn merged(mut self) -> Self {
        if let [block] = *self.blocks.as_slice()
            && block.bytes == self.extent_bytes
        {
            self.blocks = Blocks::one(block.offset, block.bytes * self.count);
            self.count = 1;
        }
        self
    }

    /// Bytes of the message.
    #[inline]
    pub fn message_bytes(&self) -> u64 {
        self.message_bytes
    }

    /// Bytes that the buffer must have at least.
    #[inline]
    pub fn span_bytes(&self) -> usize {
        self.span_bytes
    }

    /// Where the message begins in the buffer if it lies there in one piece;
    /// an empty one does at 0.
    #[inline]
    pub fn is_contiguous(&self) -> Option<usize> {
        match self.blocks.as_slice() {
            [] => Some(0),
            [block] if self.count == 1 => Some(block.offset),
            _ => None,
        }
    }

    /// Whether some byte of the buffer is in the message more than once. Such
    /// a layout can be sent from, not received into.
    #[inline]
    pub fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// Whether a message can be sent from a buffer of this length.
    ///
    /// # Errors
    /// [`LayoutError::Buffer`].
    pub fn check_send(&self, buffer_bytes: usize) -> Result<(), LayoutError> {
        if self.span_bytes > buffer_bytes {
            return Err(LayoutError::Buffer {
                span_bytes: self.span_bytes,
                buffer_bytes,
            });
        }
        Ok(())
    }

    /// Whether a message can be received into a buffer of this length.
    ///
    /// # Errors
    /// [`LayoutError::Buffer`] or [`LayoutError::Overlap`].
    pub fn check_receive(&self, buffer_bytes: usize) -> Result<(), LayoutError> {
        if self.overlaps {
            return Err(LayoutError::Overlap);
        }
        self.check_send(buffer_bytes)
    }

    /// Where `bytes` of the message from `offset` on lie in the buffer, in
    /// message order. Ends early where the message does. Every piece lies
    /// within [`span_bytes`](Self::span_bytes) and none is empty.
    ///
    /// Takes O(log blocks) to find the beginning.
    #[inline]
    pub fn pieces(&self, offset: u64, bytes: usize) -> Pieces<'_> {
        Pieces::new(self, offset, bytes)
    }
}
