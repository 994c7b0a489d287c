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

/// A piece and others of its length behind it, at a pitch.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieceRows {
    pub(super) piece: Piece,
    pub(super) rows: usize,
    pub(super) pitch: isize,
}

/// The pieces of part of a message; see [`Layout::pieces`](super::Layout::pieces).
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    blocks: &'a [Block],
    stride: isize,
    /// Where the present item begins in the buffer.
    item: isize,
    /// The present block, its row, and how many bytes of this row are done.
    block: usize,
    row: usize,
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
            row: 0,
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
        let (block, within) = (
            self.blocks[self.block],
            within - self.blocks[self.block].start,
        );
        (self.row, self.done) = match block.rows {
            1 => (0, within as usize),
            _ => {
                let bytes = block.bytes as u64;
                ((within / bytes) as usize, (within % bytes) as usize)
            }
        };
    }

    /// The next whole blocks of the present item, from its place in the buffer on; none if the next
    /// piece does not begin or end a block.
    #[inline]
    pub(super) fn next_blocks(&mut self) -> (isize, &'a [Block]) {
        let (item, rest) = (self.item, &self.blocks[self.block..]);
        if self.row > 0 || self.done > 0 || self.left == 0 {
            return (item, &[]);
        }
        let end = rest[0].start + self.left as u64;
        let whole = match rest[rest.len() - 1].stop() <= end {
            true => rest.len(),
            false => rest.partition_point(|block| block.stop() <= end),
        };
        let blocks = &rest[..whole];
        if let Some(last) = blocks.last() {
            self.left -= (last.stop() - rest[0].start) as usize;
            self.block += whole;
            self.end_item();
        }
        (item, blocks)
    }

    /// The next piece, with as many whole rows behind it in its block as are left.
    #[inline]
    pub(super) fn next_rows(&mut self) -> Option<PieceRows> {
        if self.left == 0 {
            return None;
        }
        let block = self.blocks[self.block];
        let rows = block.rows - self.row;
        let is_whole = self.done == 0 && self.left >= block.bytes;
        let rows = match is_whole && rows > 1 {
            true => rows.min(self.left / block.bytes),
            false => 1,
        };
        Some(self.take(rows))
    }

    /// Takes this number of rows of the present block: one, or several that are whole.
    #[inline]
    fn take(&mut self, rows: usize) -> PieceRows {
        let block = self.blocks[self.block];
        let first = self.item + block.offset + self.row as isize * block.pitch;
        let piece = Piece {
            buffer_offset: first + self.done as isize,
            bytes: self.left.min(block.bytes - self.done),
        };
        self.left -= piece.bytes * rows;
        self.done = 0;
        self.row += rows;
        if self.row == block.rows {
            self.row = 0;
            self.block += 1;
            self.end_item();
        }
        PieceRows {
            piece,
            rows,
            pitch: block.pitch,
        }
    }

    /// Goes to the next item behind the last block.
    #[inline]
    fn end_item(&mut self) {
        if self.block == self.blocks.len() {
            self.block = 0;
            // Behind the last item this may wrap; the value is not used any more.
            self.item = self.item.wrapping_add(self.stride);
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        (self.left > 0).then(|| self.take(1).piece)
    }
}
