//! The blocks of one item of a layout, in message order.

use super::{LayoutError, SPAN_BYTES_MAX};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A run of buffer bytes. Never empty, except in [`Blocks::one`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Where it begins, as an offset from the address of its item.
    pub(super) offset: isize,
    pub(super) bytes: usize,
    /// Where it begins in the item's part of the message.
    pub(super) start: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Blocks {
    One(Block),
    /// Two or more.
    Many(Arc<[Block]>),
}

impl Block {
    /// The offset behind its last byte in the buffer.
    pub(super) fn end(&self) -> isize {
        self.offset + self.bytes as isize
    }

    /// The offset behind its last byte in the message.
    fn stop(&self) -> u64 {
        self.start + self.bytes as u64
    }
}

impl Blocks {
    pub(super) fn one(offset: isize, bytes: usize) -> Self {
        Blocks::One(Block {
            offset,
            bytes,
            start: 0,
        })
    }

    /// Checks blocks, drops empty ones, and merges blocks that follow one another.
    pub(super) fn checked(
        blocks: impl ExactSizeIterator<Item = (i128, u128)>,
    ) -> Result<Self, LayoutError> {
        let mut merged: Vec<Block> = Vec::with_capacity(blocks.len());
        let mut start = 0_u64;
        for (offset_bytes, bytes) in blocks.filter(|(_, bytes)| *bytes > 0) {
            let error = LayoutError::Block {
                offset_bytes,
                bytes,
            };
            let end = offset_bytes + bytes as i128;
            let offset = isize::try_from(offset_bytes).map_err(|_| error)?;
            if end > SPAN_BYTES_MAX as i128 || bytes > SPAN_BYTES_MAX as u128 {
                return Err(error);
            }
            let bytes = bytes as usize;
            let joins =
                |last: &&mut Block| last.end() == offset && last.bytes <= SPAN_BYTES_MAX - bytes;
            match merged.last_mut().filter(joins) {
                Some(last) => last.bytes += bytes,
                None => merged.push(Block {
                    offset,
                    bytes,
                    start,
                }),
            }
            start = (start.checked_add(bytes as u64)).ok_or(LayoutError::Message)?;
        }
        Ok(match *merged {
            [] => Self::one(0, 0),
            [block] => Blocks::One(block),
            _ => Blocks::Many(merged.into()),
        })
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[Block] {
        match self {
            Blocks::One(block) => core::slice::from_ref(block),
            Blocks::Many(blocks) => blocks,
        }
    }

    /// Message bytes of one item.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.as_slice().last().map_or(0, Block::stop)
    }

    /// The offset of the lowest byte, and the offset behind the highest.
    pub(super) fn bounds(&self) -> (isize, isize) {
        let low = self.as_slice().iter().map(|block| block.offset).min();
        let end = self.as_slice().iter().map(Block::end).max();
        (low.unwrap_or(0), end.unwrap_or(0))
    }

    /// Whether any two blocks of `count` items at a stride of `extent`, in either
    /// direction, share a byte.
    pub(super) fn overlap(&self, extent: usize, count: usize) -> bool {
        let mut blocks = self.as_slice().to_vec();
        let (low, _) = self.bounds();
        blocks.iter_mut().for_each(|block| block.offset -= low);
        if !blocks.is_sorted_by_key(|block| block.offset) {
            blocks.sort_unstable_by_key(|block| block.offset);
        }
        if blocks.windows(2).any(|pair| pair[0].end() > pair[1].offset) {
            return true;
        }
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
            return false;
        };
        let items_apart = count < 2 || (last.end() - first.offset) as usize <= extent;
        !items_apart && items_overlap(&blocks, extent, count)
    }
}

/// Whether blocks of different items share a byte, when items are interleaved and
/// no offset is negative.
///
/// Byte `b` of item `i` is at `b + i * extent`: two bytes can meet only if they
/// are the same modulo `extent`, and do so if their quotients are less than
/// `count` apart. So each block is cut into segments that lie within one
/// `extent`, and a sweep over the residues keeps the quotients of the segments
/// that are open; among them only neighbours need comparing.
fn items_overlap(blocks: &[Block], extent: usize, count: usize) -> bool {
    if blocks.iter().any(|block| block.bytes > extent) {
        // The block overlaps its own copy in the next item.
        return true;
    }
    let mut edges = Vec::with_capacity(4 * blocks.len());
    for block in blocks {
        let offset = block.offset as usize;
        let (quotient, begin) = (offset / extent, offset % extent);
        let end = begin + block.bytes;
        edges.extend([(begin, true, quotient), (end.min(extent), false, quotient)]);
        if end > extent {
            edges.extend([(0, true, quotient + 1), (end - extent, false, quotient + 1)]);
        }
    }
    // Ends sort before beginnings at the same place.
    edges.sort_unstable();
    let mut open = BTreeSet::new();
    for (_, begins, quotient) in edges {
        if !begins {
            open.remove(&quotient);
            continue;
        }
        let below = open.range(..=quotient).next_back();
        let above = open.range(quotient..).next();
        if below.is_some_and(|&below| quotient - below < count)
            || above.is_some_and(|&above| above - quotient < count)
        {
            return true;
        }
        open.insert(quotient);
    }
    false
}
