//! Copying between a buffer and the message stream, in either direction.
//!
//! The requested part of a message is cut into the end of an item, whole items, and the beginning
//! of an item. Ends and beginnings are walked piece by piece; whole items have loops of their own,
//! because work per piece (a call of `memcpy`) costs more than copying a few bytes.
//!
//! Only bytes of the layout are accessed, by pointer: there need not be memory between them.

#![allow(unsafe_code, reason = "a layout may pick bytes from several buffers")]

use super::blocks::Block;
use super::pieces::PieceRows;
use super::{Items, Layout, Pieces};
use core::ops::Range;
use core::ptr::copy_nonoverlapping;

/// The direction of a copy: from the buffer into the message.
pub(crate) const PACK: bool = true;
/// From the message into the buffer.
pub(crate) const UNPACK: bool = false;

/// A part of a message, cut at whole items. Lengths are in bytes of the message.
struct Part {
    head: usize,
    items: Range<usize>,
    items_bytes: usize,
}

impl Layout {
    /// Copies the message out of `buffer`, from `offset` on, until `out` is full or the message
    /// ends. Returns the number of bytes copied.
    ///
    /// # Panics
    /// When [`check_send`](Self::check_send) fails: the buffer is too short for the layout, or the
    /// layout begins before it.
    pub fn pack(&self, buffer: &[u8], offset: u64, out: &mut [u8]) -> usize {
        let checked = self.check_send(buffer.len());
        assert!(checked.is_ok(), "{checked:?}");
        let base = buffer.as_ptr().cast_mut();
        // SAFETY: all of the layout lies in the buffer, which is only read.
        unsafe { (self.items()).copy::<PACK>(base, offset, out.as_mut_ptr(), out.len()) }
    }

    /// Copies `data`, the message from `offset` on, to its places in `buffer`, until the data or
    /// the message ends. Returns the number of bytes copied. If blocks overlap, later ones
    /// overwrite earlier ones.
    ///
    /// # Panics
    /// As [`Layout::pack`].
    pub fn unpack(&self, offset: u64, data: &[u8], buffer: &mut [u8]) -> usize {
        let checked = self.check_send(buffer.len());
        assert!(checked.is_ok(), "{checked:?}");
        let message = data.as_ptr().cast_mut();
        // SAFETY: all of the layout lies in the buffer; the data is only read.
        unsafe { (self.items()).copy::<UNPACK>(buffer.as_mut_ptr(), offset, message, data.len()) }
    }

    /// Copies `bytes` bytes of a message from `offset` on, to or from `part`. The message has
    /// `message_bytes` bytes. It consists of layouts like this one, each an extent behind the
    /// previous one, the first at `base`; it may end within the last one.
    ///
    /// # Safety
    /// The bytes of all these layouts and those at `part` must be readable or writable,
    /// as the direction asks, and lie apart.
    // Never inlined, so that copies of contiguous bytes are.
    #[inline(never)]
    pub(crate) unsafe fn copy_several<const DIRECTION: bool>(
        &self,
        base: *mut u8,
        message_bytes: u64,
        offset: u64,
        part: *mut u8,
        bytes: usize,
    ) {
        if let Some(items) = self.as_one(message_bytes) {
            // SAFETY: the caller's promise.
            unsafe { items.copy::<DIRECTION>(base, offset, part, bytes) };
            return;
        }
        let mut done = 0;
        while done < bytes {
            let (base, within) = self.at(base, offset + done as u64);
            let (part, left) = (part.wrapping_add(done), bytes - done);
            // SAFETY: the caller's promise, for one of the layouts.
            done += unsafe { self.items().copy::<DIRECTION>(base, within, part, left) };
        }
    }

    /// All layouts of the message as one sequence of items, if that is possible.
    #[inline]
    fn as_one(&self, message_bytes: u64) -> Option<Items<'_>> {
        let items = self.items();
        if message_bytes <= self.message_bytes {
            return Some(items);
        }
        (self.count == 1).then(|| Items {
            stride: self.extent_bytes,
            count: message_bytes.div_ceil(items.item_bytes) as usize,
            message_bytes,
            ..items
        })
    }

    /// The start of the layout that has the byte at `offset` of the message, and the offset of that
    /// byte in that layout's part of the message.
    pub(crate) fn at(&self, base: *mut u8, offset: u64) -> (*mut u8, u64) {
        let (which, within) = (offset / self.message_bytes, offset % self.message_bytes);
        let begin = base.wrapping_offset((which as isize).wrapping_mul(self.extent_bytes));
        (begin, within)
    }
}

impl Items<'_> {
    /// Copies the message from `offset` on, to or from `part`, until `bytes` bytes are copied or
    /// the message ends. Returns the number of bytes copied.
    ///
    /// # Safety
    /// The bytes of the items and those at `part` must be readable or writable, as the
    /// direction asks, and lie apart.
    unsafe fn copy<const DIRECTION: bool>(
        &self,
        base: *mut u8,
        offset: u64,
        part: *mut u8,
        bytes: usize,
    ) -> usize {
        let bytes = self.clip(offset, bytes);
        let Part {
            head,
            items,
            items_bytes,
        } = self.part(offset, bytes);
        let tail = head + items_bytes;
        // SAFETY: the caller's promise; the three parts follow one another.
        unsafe {
            self.copy_pieces::<DIRECTION>(base, offset, part, head);
            self.copy_items::<DIRECTION>(base, items, part.add(head));
            let (offset, part) = (offset + tail as u64, part.add(tail));
            self.copy_pieces::<DIRECTION>(base, offset, part, bytes - tail);
        }
        bytes
    }

    /// Cuts `bytes` bytes of the message from `offset` on. All of them must exist.
    fn part(&self, offset: u64, bytes: usize) -> Part {
        let item_bytes = self.item_bytes;
        if self.count == 1 || bytes as u64 <= item_bytes {
            return Part {
                head: bytes,
                items: 0..0,
                items_bytes: 0,
            };
        }
        // An item is shorter than `bytes`, so that the casts lose nothing.
        let first = offset.div_ceil(item_bytes);
        let head = (first * item_bytes - offset) as usize;
        let items = (bytes - head) / item_bytes as usize;
        Part {
            head,
            items: first as usize..first as usize + items,
            items_bytes: items * item_bytes as usize,
        }
    }

    // SAFETY: the caller promises what `copy` asks for.
    unsafe fn copy_pieces<const DIRECTION: bool>(
        &self,
        base: *mut u8,
        offset: u64,
        mut part: *mut u8,
        bytes: usize,
    ) {
        let mut pieces = Pieces::new(*self, offset, bytes);
        loop {
            let (item, blocks) = pieces.next_blocks();
            // SAFETY: blocks of the items, by the caller's promise; `part` is as long.
            part = unsafe { copy_each::<DIRECTION>(blocks, base.wrapping_offset(item), part) };
            let Some(PieceRows { piece, rows, pitch }) = pieces.next_rows() else {
                return;
            };
            let buffer = base.wrapping_offset(piece.buffer_offset);
            // SAFETY: as above.
            unsafe {
                copy_rows::<DIRECTION>(piece.bytes, (rows, pitch), buffer, part);
                part = part.add(piece.bytes * rows);
            }
        }
    }

    // SAFETY: the caller promises what `copy` asks for, of whole items.
    unsafe fn copy_items<const DIRECTION: bool>(
        &self,
        base: *mut u8,
        items: Range<usize>,
        mut part: *mut u8,
    ) {
        let begin = base.wrapping_offset(items.start as isize * self.stride);
        // SAFETY: whole items by the caller's promise; `part` is as long as they are.
        unsafe {
            if let [block] = *self.blocks
                && block.rows == 1
            {
                let first = begin.wrapping_offset(block.offset);
                let walk = (items.len(), self.stride);
                copy_blocks::<DIRECTION>(block.bytes, walk, first, part);
                return;
            }
            for item in 0..items.len() {
                let item = begin.wrapping_offset(item as isize * self.stride);
                part = copy_each::<DIRECTION>(self.blocks, item, part);
            }
        }
    }
}

/// Copies the blocks of an item. Returns the end of the part.
#[inline(always)]
// SAFETY: the caller promises what `copy` asks for, of these blocks.
unsafe fn copy_each<const DIRECTION: bool>(
    blocks: &[Block],
    item: *mut u8,
    mut part: *mut u8,
) -> *mut u8 {
    for block in blocks {
        let first = item.wrapping_offset(block.offset);
        // SAFETY: the caller's promise.
        unsafe {
            copy_rows::<DIRECTION>(block.bytes, (block.rows, block.pitch), first, part);
            part = part.add(block.bytes * block.rows);
        }
    }
    part
}

/// As [`copy_blocks`]; fast for one block, too.
#[inline(always)]
// SAFETY: the caller promises what `copy_blocks` asks for.
unsafe fn copy_rows<const DIRECTION: bool>(
    bytes: usize,
    walk: (usize, isize),
    buffer: *mut u8,
    part: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match walk.0 {
            1 => copy::<DIRECTION>(buffer, part, bytes),
            _ => copy_blocks::<DIRECTION>(bytes, walk, buffer, part),
        }
    }
}

/// Copies blocks of one length. `walk` is their number and their stride in the buffer. At `part`
/// they lie one behind the other.
///
/// # Safety
/// As [`Items::copy`], of all blocks.
#[inline]
unsafe fn copy_blocks<const DIRECTION: bool>(
    bytes: usize,
    walk: (usize, isize),
    buffer: *mut u8,
    part: *mut u8,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => copy_blocks_of::<DIRECTION, 1>(walk, buffer, part),
            2 => copy_blocks_of::<DIRECTION, 2>(walk, buffer, part),
            4 => copy_blocks_of::<DIRECTION, 4>(walk, buffer, part),
            8 => copy_blocks_of::<DIRECTION, 8>(walk, buffer, part),
            16 => copy_blocks_of::<DIRECTION, 16>(walk, buffer, part),
            32 => copy_blocks_of::<DIRECTION, 32>(walk, buffer, part),
            64 => copy_blocks_of::<DIRECTION, 64>(walk, buffer, part),
            bytes => {
                for block in 0..walk.0 {
                    let at = buffer.wrapping_offset(block as isize * walk.1);
                    copy::<DIRECTION>(at, part.add(block * bytes), bytes);
                }
            }
        }
    }
}

/// As [`copy_blocks`], for a length that the compiler knows.
// SAFETY: the caller promises what `copy_blocks` asks for.
unsafe fn copy_blocks_of<const DIRECTION: bool, const BYTES: usize>(
    (count, stride): (usize, isize),
    mut buffer: *mut u8,
    mut part: *mut u8,
) {
    for _ in 0..count {
        let (from, to) = from_to::<DIRECTION>(buffer, part);
        // SAFETY: the caller's promise.
        unsafe { copy_nonoverlapping(from, to, BYTES) };
        buffer = buffer.wrapping_offset(stride);
        part = part.wrapping_add(BYTES);
    }
}

#[inline(always)]
fn from_to<const DIRECTION: bool>(buffer: *mut u8, part: *mut u8) -> (*const u8, *mut u8) {
    match DIRECTION {
        PACK => (buffer, part),
        UNPACK => (part, buffer),
    }
}

/// Copies bytes in the direction. Up to 64 bytes are copied without a call: by two moves of a fixed
/// length that may overlap in the middle.
#[inline(always)]
// SAFETY: the caller promises that both sides are valid and apart.
unsafe fn copy<const DIRECTION: bool>(buffer: *mut u8, part: *mut u8, bytes: usize) {
    let (from, to) = from_to::<DIRECTION>(buffer, part);
    // SAFETY: the caller's promise; both moves lie within the bytes.
    unsafe {
        match bytes {
            1 => copy_ends::<1>(from, to, bytes),
            2..4 => copy_ends::<2>(from, to, bytes),
            4..8 => copy_ends::<4>(from, to, bytes),
            8..16 => copy_ends::<8>(from, to, bytes),
            16..32 => copy_ends::<16>(from, to, bytes),
            32..=64 => copy_ends::<32>(from, to, bytes),
            _ => copy_nonoverlapping(from, to, bytes),
        }
    }
}

/// Copies at least `BYTES` bytes and at most twice that.
#[inline(always)]
// SAFETY: the caller promises that both sides are valid and apart.
unsafe fn copy_ends<const BYTES: usize>(from: *const u8, to: *mut u8, bytes: usize) {
    let last = bytes - BYTES;
    // SAFETY: the caller's promise.
    unsafe {
        copy_nonoverlapping(from, to, BYTES);
        copy_nonoverlapping(from.add(last), to.add(last), BYTES);
    }
}
