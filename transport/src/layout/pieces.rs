//! Walking part of a message through its buffer.

use super::Items;
use super::blocks::Block;

/// Bytes that follow one another both in the buffer and in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where they begin, as an offset from the buffer's address.
    pub buffer_offset: isize,
    /// Number of bytes; never 0.
    pub bytes: usize,
}

/// The pieces of part of a message; see [`Layout::pieces`](super::Layout::pieces).
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    blocks: &'a [Block],
    stride: isize,
    /// Where the present item begins in the buffer.
    item: isize,
    /// The present block, and how many of its bytes are done.
    block: usize,
    done: usize,
    left: usize,
}

impl<'a> Pieces<'a> {
    #[inline]
    pub(super) fn new(items: Items<'a>, offset: u64, bytes: usize) -> Self {
        let left = items.clip(offset, bytes);
        let mut pieces = Self {
            blocks: items.blocks,
            stride: items.stride,
            item: 0,
            block: 0,
            done: 0,
            left,
        };
        if left > 0 && offset > 0 {
            pieces.seek(offset, items.item_bytes);
        }
        pieces
    }

    /// Moves to `offset`, which lies in the message.
    #[inline]
    fn seek(&mut self, offset: u64, item_bytes: u64) {
        let (item, within) = if offset < item_bytes {
            (0, offset)
        } else {
            (offset / item_bytes, offset % item_bytes)
        };
        // The casts lose nothing: items and block lengths were counted in usize.
        self.item = item as isize * self.stride;
        self.block = self.blocks.partition_point(|block| block.start <= within) - 1;
        self.done = (within - self.blocks[self.block].start) as usize;
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.left == 0 {
            return None;
        }
        let block = self.blocks[self.block];
        let piece = Piece {
            buffer_offset: self.item + block.offset + self.done as isize,
            bytes: self.left.min(block.bytes - self.done),
        };
        self.left -= piece.bytes;
        self.done = 0;
        self.block += 1;
        if self.block == self.blocks.len() {
            self.block = 0;
            // Behind the last item this may wrap; the value is not used any more.
            self.item = self.item.wrapping_add(self.stride);
        }
        Some(piece)
    }
}
