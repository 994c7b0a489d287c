//! The blocks of one item of a layout, in message order.

use super::{LayoutError, SPAN_BYTES_MAX};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows of one length, each beginning `pitch` behind the previous one. Never empty, except in
/// [`Blocks::one`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Where the first row begins, as an offset from the address of its item.
    pub(super) offset: isize,
    /// Bytes of a row.
    pub(super) bytes: usize,
    pub(super) rows: usize,
    /// 0 if there is one row.
    pub(super) pitch: isize,
    /// Where it begins in the item's part of the message.
    pub(super) start: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Blocks {
    One(Block),
    /// Two or more.
    Many(Arc<[Block]>),
}

/// Rows of a buffer: `rows` times `row_bytes` bytes, each row beginning `pitch_bytes` behind the
/// beginning of the previous one, the first `offset_bytes` behind the address of the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "described above")]
pub struct Rows {
    pub offset_bytes: i64,
    pub row_bytes: u64,
    pub rows: u64,
    pub pitch_bytes: i64,
}

/// So many single rows of one length and distance become one block: fewer are as fast one by one.
const GATHERED_ROWS_MIN: usize = 4;

/// So many rows are compared with each other, to find whether some overlap.
const COMPARED_ROWS_MAX: usize = 1 << 20;

impl Rows {
    /// One row.
    pub fn one(offset_bytes: i64, bytes: u64) -> Self {
        Self {
            offset_bytes,
            row_bytes: bytes,
            rows: 1,
            pitch_bytes: 0,
        }
    }

    /// The bytes from the lowest to the highest, as offset and end.
    fn bounds(&self) -> Option<(i128, i128)> {
        let last = i128::from(self.rows - 1) * i128::from(self.pitch_bytes);
        let offset = i128::from(self.offset_bytes);
        let low = offset + last.min(0);
        let end = (offset + last.max(0)).checked_add(self.row_bytes.into())?;
        let is_possible = end <= SPAN_BYTES_MAX as i128 && low >= isize::MIN as i128;
        is_possible.then_some((low, end))
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 || self.row_bytes == 0
    }

    /// As one row, if they follow one another without a gap.
    fn joined(self) -> Self {
        let bytes = i128::from(self.row_bytes) * i128::from(self.rows);
        let is_dense = self.pitch_bytes as i128 == self.row_bytes as i128;
        match u64::try_from(bytes)
            .ok()
            .filter(|_| is_dense || self.rows == 1)
        {
            Some(row_bytes) => Self {
                row_bytes,
                rows: 1,
                pitch_bytes: 0,
                ..self
            },
            None => self,
        }
    }
}

impl Block {
    /// The offset of its lowest byte.
    fn low(&self) -> isize {
        self.offset + self.last_row().min(0)
    }

    /// The offset behind its highest byte.
    pub(super) fn end(&self) -> isize {
        self.offset + self.last_row().max(0) + self.bytes as isize
    }

    /// The distance from the first row to the last one.
    fn last_row(&self) -> isize {
        (self.rows - 1) as isize * self.pitch
    }

    /// The offset behind its last byte in the message.
    #[inline]
    pub(super) fn stop(&self) -> u64 {
        self.start + self.bytes as u64 * self.rows as u64
    }

    /// Whether rows of this block share bytes.
    fn overlaps(&self) -> bool {
        self.rows > 1 && self.pitch.unsigned_abs() < self.bytes
    }

    /// Each row as a block.
    fn each_row(self) -> impl Iterator<Item = Block> {
        (0..self.rows).map(move |row| Block {
            offset: self.offset + row as isize * self.pitch,
            rows: 1,
            pitch: 0,
            ..self
        })
    }
}

impl Blocks {
    pub(super) fn one(offset: isize, bytes: usize) -> Self {
        Blocks::One(Block {
            offset,
            bytes,
            rows: 1,
            pitch: 0,
            start: 0,
        })
    }

    /// Checks blocks, drops empty ones, and merges blocks that follow one another.
    pub(super) fn checked(
        blocks: impl ExactSizeIterator<Item = Rows>,
    ) -> Result<Self, LayoutError> {
        let mut merged: Vec<Block> = Vec::with_capacity(blocks.len());
        let mut start = 0_u64;
        for rows in blocks.filter(|rows| !rows.is_empty()) {
            let error = LayoutError::Block {
                offset_bytes: rows.offset_bytes.into(),
                bytes: rows.row_bytes.into(),
            };
            rows.bounds().ok_or(error)?;
            let rows = rows.joined();
            let block = Block {
                offset: rows.offset_bytes as isize,
                bytes: usize::try_from(rows.row_bytes).map_err(|_| error)?,
                rows: usize::try_from(rows.rows).map_err(|_| error)?,
                pitch: rows.pitch_bytes as isize,
                start,
            };
            let joins = |last: &&mut Block| {
                (last.rows, block.rows) == (1, 1)
                    && last.end() == block.offset
                    && last.bytes <= SPAN_BYTES_MAX - block.bytes
            };
            match merged.last_mut().filter(joins) {
                Some(last) => last.bytes += block.bytes,
                None => merged.push(block),
            }
            let bytes = rows.row_bytes.checked_mul(rows.rows);
            let stop = bytes.and_then(|bytes| start.checked_add(bytes));
            start = stop.ok_or(LayoutError::Message)?;
        }
        gather_rows(&mut merged);
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
        let low = self.as_slice().iter().map(Block::low).min();
        let end = self.as_slice().iter().map(Block::end).max();
        (low.unwrap_or(0), end.unwrap_or(0))
    }

    /// Whether any two blocks of `count` items at a stride of `extent`, in either
    /// direction, share a byte. More than 2^20 rows that are interleaved are not compared: then only
    /// as many bytes as must overlap do.
    pub(super) fn overlap(&self, extent: usize, count: usize) -> bool {
        let blocks = self.as_slice();
        if blocks.iter().any(Block::overlaps) {
            return true;
        }
        let (low, end) = self.bounds();
        let span = (end as i128 - low as i128) as usize;
        let items_apart = count < 2 || span <= extent;
        if items_apart && are_apart(blocks.iter().map(|block| (block.low(), block.end()))) {
            return false;
        }
        let rows = (blocks.iter()).fold(0_usize, |rows, block| rows.saturating_add(block.rows));
        if rows > COMPARED_ROWS_MAX {
            return self.bytes() > span as u64;
        }
        let mut rows: Vec<_> = (blocks.iter()).flat_map(|block| block.each_row()).collect();
        rows.iter_mut().for_each(|row| row.offset -= low);
        if !are_apart(rows.iter().map(|row| (row.offset, row.end()))) {
            return true;
        }
        !items_apart && items_overlap(&rows, extent, count)
    }
}

/// Turns runs of single rows of one length, at one distance, into blocks.
fn gather_rows(blocks: &mut Vec<Block>) {
    let (mut done, mut kept) = (0, 0);
    while done < blocks.len() {
        let mut block = blocks[done];
        let run = run_of_rows(&blocks[done..]);
        if run >= GATHERED_ROWS_MIN {
            block.pitch = blocks[done + 1].offset - block.offset;
            block.rows = run;
        }
        blocks[kept] = block;
        kept += 1;
        done += match run >= GATHERED_ROWS_MIN {
            true => run,
            false => 1,
        };
    }
    blocks.truncate(kept);
    blocks.shrink_to_fit();
}

/// How many blocks from the first one on are single rows of one length, at one distance.
fn run_of_rows(blocks: &[Block]) -> usize {
    let &[first, second, ..] = blocks else {
        return 1;
    };
    let Some(pitch) = second.offset.checked_sub(first.offset) else {
        return 1;
    };
    let alike = |pair: &&[Block]| {
        let is_row = |block: &Block| block.rows == 1 && block.bytes == first.bytes;
        is_row(&pair[0])
            && is_row(&pair[1])
            && pair[1].offset.checked_sub(pair[0].offset) == Some(pitch)
    };
    1 + blocks.windows(2).take_while(alike).count()
}

/// Whether no two of the ranges of bytes share a byte.
fn are_apart(ranges: impl Iterator<Item = (isize, isize)> + Clone) -> bool {
    let mut pairs = ranges.clone().zip(ranges.clone().skip(1));
    if pairs.all(|(left, right)| left.1 <= right.0) {
        return true;
    }
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_unstable();
    ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0)
}

/// Whether blocks of one row in different items share a byte, when items are interleaved and
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
