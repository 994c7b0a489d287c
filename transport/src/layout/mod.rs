//! Non-contiguous data: which bytes of a buffer make up a message.
//!
//! A [`Layout`] is what MPI calls a derived datatype (MPI-4.1, 5.1), in bytes: a *type map* of
//! blocks, in message order, perhaps repeated at a stride. A block is one row of bytes, or several
//! [`Rows`] at a pitch. The message consists of the blocks, one
//! behind the other. [`Layout::pieces`] walks any part of the message, so that it can be packed and
//! unpacked fragment by fragment, each starting anywhere; [`Layout::pack`] and [`Layout::unpack`]
//! do so between slices.

mod blocks;
mod pack;
mod pieces;

#[cfg(test)]
mod tests;

pub use blocks::Rows;
pub(crate) use pack::{PACK, UNPACK};
pub use pieces::{Piece, Pieces};

use blocks::{Block, Blocks};
use thiserror::Error;

/// No buffer is longer: the limit of Rust's allocations and slices.
const SPAN_BYTES_MAX: usize = isize::MAX as usize;

/// Which bytes of a buffer make up a message. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The blocks of one item. The message is `count` items, each `stride_bytes` behind the
    /// previous one.
    blocks: Blocks,
    stride_bytes: isize,
    count: usize,
    message_bytes: u64,
    /// The lowest byte, as an offset from the buffer's address, and the offset behind the highest.
    low: isize,
    end: isize,
    /// Distance from one such layout to the next, if several make up a message.
    extent_bytes: isize,
    overlaps: bool,
}

/// Items at a stride: those of one layout, or several layouts of one item each.
#[derive(Clone, Copy, Debug)]
struct Items<'a> {
    blocks: &'a [Block],
    stride: isize,
    count: usize,
    item_bytes: u64,
    message_bytes: u64,
}

/// Why blocks are not a layout, or a layout does not suit a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// A block ends beyond every possible buffer.
    #[error(
        "block of {bytes} bytes at offset {offset_bytes} ends beyond the largest possible buffer: check the units of the layout, they are bytes"
    )]
    Block {
        /// Offset of the block.
        offset_bytes: i128,
        /// Its length.
        bytes: u128,
    },
    /// The repeated blocks end beyond every possible buffer.
    #[error(
        "{count} items at a stride of {stride_bytes} bytes end beyond the largest possible buffer: check the units of the layout, they are bytes"
    )]
    Span {
        /// Number of items.
        count: u128,
        /// Distance from one item to the next.
        stride_bytes: i128,
    },
    /// More message bytes than a 64-bit number counts (blocks overlap).
    #[error("the blocks of a layout add up to more than 2^64 bytes: use fewer or shorter blocks")]
    Message,
    /// The buffer ends before the layout does.
    #[error(
        "the layout spans {span_bytes} bytes, its buffer has {buffer_bytes}: give a larger buffer or fewer blocks"
    )]
    Buffer {
        /// The required length.
        span_bytes: usize,
        /// The length of the buffer.
        buffer_bytes: usize,
    },
    /// The layout begins before its buffer.
    #[error(
        "the layout begins {before_bytes} bytes before its buffer: give the buffer by its address, or use offsets from 0"
    )]
    Before {
        /// By how many bytes.
        before_bytes: usize,
    },
    /// A byte of the buffer would be received twice.
    #[error(
        "the blocks of a layout to receive into overlap: only layouts to send from may name a byte twice"
    )]
    Overlap,
}

impl Layout {
    /// The first `bytes` bytes of the buffer.
    ///
    /// # Panics
    /// When no buffer can be that long.
    pub fn contiguous(bytes: usize) -> Self {
        assert!(bytes <= SPAN_BYTES_MAX, "no buffer has {bytes} bytes");
        Self {
            blocks: Blocks::one(0, bytes),
            stride_bytes: bytes as isize,
            count: 1,
            message_bytes: bytes as u64,
            low: 0,
            end: bytes as isize,
            extent_bytes: bytes as isize,
            overlaps: false,
        }
    }

    /// `count` blocks of `block_bytes`, each beginning `stride_bytes` behind the beginning of the
    /// previous one (MPI's hvector).
    ///
    /// # Errors
    /// [`LayoutError::Span`], [`LayoutError::Block`] or
    /// [`LayoutError::Message`].
    pub fn vector(
        count: usize,
        block_bytes: usize,
        stride_bytes: usize,
    ) -> Result<Self, LayoutError> {
        Self::structure(&[(0, block_bytes)], stride_bytes, count)
    }

    /// Blocks of (offset, length) in bytes, in message order, which may differ from the order in
    /// the buffer (MPI's hindexed).
    ///
    /// # Errors
    /// [`LayoutError::Block`] or [`LayoutError::Message`].
    pub fn indexed(blocks: &[(usize, usize)]) -> Result<Self, LayoutError> {
        Self::structure(blocks, 0, 1)
    }

    /// `count` structs at a stride of `stride_bytes`. Each has the fields of (offset, length) in
    /// bytes, in message order (MPI's struct, resized).
    ///
    /// # Errors
    /// [`LayoutError::Block`], [`LayoutError::Span`] or
    /// [`LayoutError::Message`].
    pub fn structure(
        fields: &[(usize, usize)],
        stride_bytes: usize,
        count: usize,
    ) -> Result<Self, LayoutError> {
        if let Some(&(offset, bytes)) = (fields.iter())
            .find(|(offset, bytes)| *bytes > 0 && (*offset).max(*bytes) > SPAN_BYTES_MAX)
        {
            return Err(LayoutError::Block {
                offset_bytes: offset as i128,
                bytes: bytes as u128,
            });
        }
        let row = |&(offset, bytes): &(usize, usize)| Rows::one(offset as i64, bytes as u64);
        let blocks = Blocks::checked(fields.iter().map(row))?;
        Self::repeated(blocks, stride_bytes as i128, count as u128)
    }

    /// `count` items at a stride of `stride_bytes`. Each has the blocks of (offset, length) in
    /// bytes, in message order. Offsets and stride have either sign. With a buffer at address 0 the
    /// offsets are addresses (MPI's bottom).
    ///
    /// # Errors
    /// As [`Layout::structure`].
    pub fn signed(
        blocks: &[(i64, u64)],
        stride_bytes: i64,
        count: u64,
    ) -> Result<Self, LayoutError> {
        let row = |&(offset, bytes): &(i64, u64)| Rows::one(offset, bytes);
        let blocks = Blocks::checked(blocks.iter().map(row))?;
        Self::repeated(blocks, stride_bytes.into(), count.into())
    }

    /// As [`Layout::signed`], with rows in the place of blocks: vectors in vectors, or in structs,
    /// need one block for each inner vector, however long it is.
    ///
    /// # Errors
    /// As [`Layout::structure`].
    pub fn rows(blocks: &[Rows], stride_bytes: i64, count: u64) -> Result<Self, LayoutError> {
        let blocks = Blocks::checked(blocks.iter().copied())?;
        Self::repeated(blocks, stride_bytes.into(), count.into())
    }

    /// The same layout, but the next such layout begins `extent_bytes` behind it (MPI's resized).
    /// Without this call the next one begins behind the highest byte.
    #[must_use]
    pub fn with_extent(self, extent_bytes: i64) -> Self {
        let extent_bytes = extent_bytes as isize;
        Self {
            extent_bytes,
            ..self
        }
    }

    fn repeated(blocks: Blocks, stride_bytes: i128, count: u128) -> Result<Self, LayoutError> {
        if count == 0 || blocks.bytes() == 0 {
            return Ok(Self::contiguous(0));
        }
        let error = LayoutError::Span {
            count,
            stride_bytes,
        };
        let last = (count - 1)
            .try_into()
            .ok()
            .and_then(|last: i128| last.checked_mul(stride_bytes))
            .ok_or(error)?;
        let (low, end) = blocks.bounds();
        let (low, end) = (low as i128 + last.min(0), end as i128 + last.max(0));
        let is_possible = end - low <= SPAN_BYTES_MAX as i128;
        let in_range = |bound| isize::try_from(bound).ok().filter(|_| is_possible);
        let (low, end) = (in_range(low).zip(in_range(end))).ok_or(error)?;
        let message_bytes = u64::try_from(count)
            .ok()
            .and_then(|count| blocks.bytes().checked_mul(count))
            .ok_or(LayoutError::Message)?;
        let count = usize::try_from(count).map_err(|_| error)?;
        // A single item may have any stride.
        let stride_bytes = stride_bytes as isize;
        let overlaps = blocks.overlap(stride_bytes.unsigned_abs(), count);
        let layout = Self {
            blocks,
            stride_bytes,
            count,
            message_bytes,
            low,
            end,
            extent_bytes: end - low,
            overlaps,
        };
        Ok(layout.merged())
    }

    /// Turns repeated single rows into one row, if no gap is between them, or else into one block.
    fn merged(mut self) -> Self {
        if let [block] = *self.blocks.as_slice()
            && block.rows == 1
            && self.count > 1
        {
            self.blocks = match block.bytes as isize == self.stride_bytes {
                true => Blocks::one(block.offset, block.bytes * self.count),
                false => Blocks::One(Block {
                    rows: self.count,
                    pitch: self.stride_bytes,
                    ..block
                }),
            };
            self.count = 1;
        }
        self
    }

    /// Bytes of the message.
    #[inline]
    pub fn message_bytes(&self) -> u64 {
        self.message_bytes
    }

    /// Minimum length of the buffer in bytes, from its address on.
    #[inline]
    pub fn span_bytes(&self) -> usize {
        self.end.max(0) as usize
    }

    /// The lowest byte, as an offset from the buffer's address, and the offset behind the highest.
    #[inline]
    pub fn bounds(&self) -> (isize, isize) {
        (self.low, self.end)
    }

    /// Distance from one such layout to the next, if several make up a message.
    #[inline]
    pub fn extent_bytes(&self) -> isize {
        self.extent_bytes
    }

    /// Where the message begins in the buffer if it is contiguous there; an empty message begins at
    /// 0.
    #[inline]
    pub fn is_contiguous(&self) -> Option<isize> {
        match self.blocks.as_slice() {
            [] => Some(0),
            [block] if self.count == 1 && block.rows == 1 => Some(block.offset),
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
    /// [`LayoutError::Buffer`] or [`LayoutError::Before`].
    pub fn check_send(&self, buffer_bytes: usize) -> Result<(), LayoutError> {
        if self.low < 0 {
            let before_bytes = self.low.unsigned_abs();
            return Err(LayoutError::Before { before_bytes });
        }
        if self.span_bytes() > buffer_bytes {
            return Err(LayoutError::Buffer {
                span_bytes: self.span_bytes(),
                buffer_bytes,
            });
        }
        Ok(())
    }

    /// Whether a message can be received into a buffer of this length.
    ///
    /// # Errors
    /// As [`Layout::check_send`], and [`LayoutError::Overlap`].
    pub fn check_receive(&self, buffer_bytes: usize) -> Result<(), LayoutError> {
        if self.overlaps {
            return Err(LayoutError::Overlap);
        }
        self.check_send(buffer_bytes)
    }

    /// The pieces of the buffer that hold `bytes` bytes of the message from `offset` on, in message
    /// order. The pieces end early where the message ends. No piece is empty.
    ///
    /// Takes O(log blocks) to find the beginning.
    #[inline]
    pub fn pieces(&self, offset: u64, bytes: usize) -> Pieces<'_> {
        Pieces::new(self.items(), offset, bytes)
    }

    #[inline]
    fn items(&self) -> Items<'_> {
        Items {
            blocks: self.blocks.as_slice(),
            stride: self.stride_bytes,
            count: self.count,
            item_bytes: self.blocks.bytes(),
            message_bytes: self.message_bytes,
        }
    }
}

impl Items<'_> {
    /// How many of the `bytes` bytes from `offset` on are in the message.
    #[inline]
    fn clip(&self, offset: u64, bytes: usize) -> usize {
        let left = self.message_bytes.saturating_sub(offset);
        usize::try_from(left).map_or(bytes, |left| left.min(bytes))
    }
}
