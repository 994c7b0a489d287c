//! Copying between a buffer and the message stream.
//!
//! The part of a message that is asked for is cut into the end of an item,
//! whole items, and the beginning of an item. Ends and beginnings are walked
//! piece by piece; whole items have loops of their own, because per-piece work
//! (a call of `memcpy`) costs more than to copy a few bytes.
//!
//! Only bytes of the layout are touched, by pointer: what lies between them need
//! not be memory.

#![allow(unsafe_code, reason = "a layout may pick bytes from several buffers")]

use super::{Items, Layout, Pieces};
use core::ops::Range;
use core::ptr::copy_nonoverlapping;

/// A part of a message, in bytes of the message.
struct Part {
    head: usize,
    items: Range<usize>,
    items_bytes: usize,
}

impl Layout {
    /// Copies the message from `offset` on out of `buffer`, until `out` is full
    /// or the message ends. Returns the bytes copied.
    ///
    /// # Panics
    /// When the buffer is too short for the layout, or the layout begins before it
    /// ([`check_send`](Self::check_send) tells).
    pub fn pack(&self, buffer: &[u8], offset: u64, out: &mut [u8]) -> usize {
        let checked = self.check_send(buffer.len());
        assert!(checked.is_ok(), "{checked:?}");
        // SAFETY: all of the layout lies in the buffer.
        unsafe { self.items().pack(buffer.as_ptr(), offset, out) }
    }

    /// Copies `data`, the message from `offset` on, to its places in `buffer`,
    /// until the data or the message ends. Returns the bytes copied. Of
    /// overlapping blocks the later ones win.
    ///
    /// # Panics
    /// As [`Layout::pack`].
    pub fn unpack(&self, offset: u64, data: &[u8], buffer: &mut [u8]) -> usize {
        let checked = self.check_send(buffer.len());
        assert!(checked.is_ok(), "{checked:?}");
        // SAFETY: all of the layout lies in the buffer.
        unsafe { self.items().unpack(offset, data, buffer.as_mut_ptr()) }
    }

    /// Copies a part of the message of `message_bytes` that layouts like this one
    /// make up, each an extent behind the one before, the first at `base`.
    ///
    /// # Safety
    /// The bytes of all these layouts must be readable, and lie apart from `out`.
    pub(crate) unsafe fn pack_several(
        &self,
        base: *const u8,
        message_bytes: u64,
        offset: u64,
        out: &mut [u8],
    ) {
        if let Some(items) = self.as_one(message_bytes) {
            // SAFETY: the caller's promise.
            unsafe { items.pack(base, offset, out) };
            return;
        }
        let mut done = 0;
        while done < out.len() {
            let (base, within) = self.at(base.cast_mut(), offset + done as u64);
            // SAFETY: the caller's promise, for one of the layouts.
            done += unsafe { self.items().pack(base, within, &mut out[done..]) };
        }
    }

    /// The reverse.
    ///
    /// # Safety
    /// The bytes of all these layouts must be writable, and lie apart from `data`.
    pub(crate) unsafe fn unpack_several(
        &self,
        message_bytes: u64,
        offset: u64,
        data: &[u8],
        base: *mut u8,
    ) {
        if let Some(items) = self.as_one(message_bytes) {
            // SAFETY: the caller's promise.
            unsafe { items.unpack(offset, data, base) };
            return;
        }
        let mut done = 0;
        while done < data.len() {
            let (base, within) = self.at(base, offset + done as u64);
            // SAFETY: the caller's promise, for one of the layouts.
            done += unsafe { self.items().unpack(within, &data[done..], base) };
        }
    }

    /// Items that are the same as so many layouts.
    #[inline]
    fn as_one(&self, message_bytes: u64) -> Option<Items<'_>> {
        let items = self.items();
        if message_bytes == self.message_bytes {
            return Some(items);
        }
        (self.count == 1).then(|| Items {
            stride: self.extent_bytes,
            count: (message_bytes / items.item_bytes) as usize,
            message_bytes,
            ..items
        })
    }

    /// Where the layout begins that has the byte at `offset` of the message, and
    /// where that byte is in it.
    fn at(&self, base: *mut u8, offset: u64) -> (*mut u8, u64) {
        let (which, within) = (offset / self.message_bytes, offset % self.message_bytes);
        let begin = base.wrapping_offset((which as isize).wrapping_mul(self.extent_bytes));
        (begin, within)
    }
}

impl Items<'_> {
    /// # Safety
    /// The bytes of the items must be readable, and lie apart from `out`.
    unsafe fn pack(&self, base: *const u8, offset: u64, out: &mut [u8]) -> usize {
        let bytes = self.clip(offset, out.len());
        let part = self.part(offset, bytes);
        let (head, rest) = out[..bytes].split_at_mut(part.head);
        let (whole, tail) = rest.split_at_mut(part.items_bytes);
        // SAFETY: the caller's promise.
        unsafe {
            self.pack_pieces(base, offset, head);
            self.pack_items(base, part.items, whole);
            self.pack_pieces(base, offset + (bytes - tail.len()) as u64, tail);
        }
        bytes
    }

    /// # Safety
    /// The bytes of the items must be writable, and lie apart from `data`.
    unsafe fn unpack(&self, offset: u64, data: &[u8], base: *mut u8) -> usize {
        let bytes = self.clip(offset, data.len());
        let part = self.part(offset, bytes);
        let (head, rest) = data[..bytes].split_at(part.head);
        let (whole, tail) = rest.split_at(part.items_bytes);
        // SAFETY: the caller's promise.
        unsafe {
            self.unpack_pieces(offset, head, base);
            self.unpack_items(part.items, whole, base);
            self.unpack_pieces(offset + (bytes - tail.len()) as u64, tail, base);
        }
        bytes
    }

    /// Cuts `bytes` of the message, all of which exist, from `offset` on.
    fn part(&self, offset: u64, bytes: usize) -> Part {
        let item_bytes = self.item_bytes;
        if self.count == 1 || bytes as u64 <= item_bytes {
            return Part {
                head: bytes,
                items: 0..0,
                items_bytes: 0,
            };
        }
        // an item is shorter than `bytes`, so that the casts lose nothing
        let first = offset.div_ceil(item_bytes);
        let head = (first * item_bytes - offset) as usize;
        let items = (bytes - head) / item_bytes as usize;
        Part {
            head,
            items: first as usize..first as usize + items,
            items_bytes: items * item_bytes as usize,
        }
    }

    // SAFETY: the caller promises what `pack` and `unpack` ask for.
    unsafe fn pack_pieces(&self, base: *const u8, offset: u64, mut out: &mut [u8]) {
        for piece in Pieces::new(*self, offset, out.len()) {
            let (now, rest) = out.split_at_mut(piece.bytes);
            // SAFETY: a piece of the items, by the caller's promise; `now` is as long.
            unsafe {
                copy(
                    base.wrapping_offset(piece.buffer_offset),
                    now.as_mut_ptr(),
                    now.len(),
                )
            };
            out = rest;
        }
    }

    // SAFETY: the caller promises what `pack` and `unpack` ask for.
    unsafe fn unpack_pieces(&self, offset: u64, mut data: &[u8], base: *mut u8) {
        for piece in Pieces::new(*self, offset, data.len()) {
            let (now, rest) = data.split_at(piece.bytes);
            // SAFETY: a piece of the items, by the caller's promise; `now` is as long.
            unsafe {
                copy(
                    now.as_ptr(),
                    base.wrapping_offset(piece.buffer_offset),
                    now.len(),
                )
            };
            data = rest;
        }
    }

    // SAFETY: the caller promises what `pack` and `unpack` ask for.
    unsafe fn pack_items(&self, base: *const u8, items: Range<usize>, out: &mut [u8]) {
        let begin = base.wrapping_offset(items.start as isize * self.stride);
        let walk = Walk {
            bytes: self.stride,
            count: items.len(),
        };
        let out = out.as_mut_ptr();
        // SAFETY: whole items by the caller's promise; `out` is as long as they are.
        unsafe {
            match *self.blocks {
                [block] => {
                    let from = begin.wrapping_offset(block.offset);
                    let message = Walk {
                        bytes: block.bytes as isize,
                        ..walk
                    };
                    copy_blocks(block.bytes, (from, walk), (out, message));
                }
                ref blocks => {
                    let mut to = out;
                    for item in 0..items.len() {
                        let from = begin.wrapping_offset(item as isize * self.stride);
                        for block in blocks {
                            copy(from.wrapping_offset(block.offset), to, block.bytes);
                            to = to.add(block.bytes);
                        }
                    }
                }
            }
        }
    }

    // SAFETY: the caller promises what `pack` and `unpack` ask for.
    unsafe fn unpack_items(&self, items: Range<usize>, data: &[u8], base: *mut u8) {
        let begin = base.wrapping_offset(items.start as isize * self.stride);
        let walk = Walk {
            bytes: self.stride,
            count: items.len(),
        };
        let data = data.as_ptr();
        // SAFETY: whole items by the caller's promise; `data` is as long as they are.
        unsafe {
            match *self.blocks {
                [block] => {
                    let to = begin.wrapping_offset(block.offset);
                    let message = Walk {
                        bytes: block.bytes as isize,
                        ..walk
                    };
                    copy_blocks(block.bytes, (data, message), (to, walk));
                }
                ref blocks => {
                    let mut from = data;
                    for item in 0..items.len() {
                        let to = begin.wrapping_offset(item as isize * self.stride);
                        for block in blocks {
                            copy(from, to.wrapping_offset(block.offset), block.bytes);
                            from = from.add(block.bytes);
                        }
                    }
                }
            }
        }
    }
}

/// A walk of `count` steps, each of `bytes` bytes.
#[derive(Clone, Copy)]
struct Walk {
    bytes: isize,
    count: usize,
}

/// Copies blocks of one length, one a step of both sides.
///
/// # Safety
/// All blocks must be readable and writable, and those of the two sides apart.
#[inline]
unsafe fn copy_blocks(bytes: usize, from: (*const u8, Walk), to: (*mut u8, Walk)) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => copy_blocks_of::<1>(from, to),
            2 => copy_blocks_of::<2>(from, to),
            4 => copy_blocks_of::<4>(from, to),
            8 => copy_blocks_of::<8>(from, to),
            16 => copy_blocks_of::<16>(from, to),
            32 => copy_blocks_of::<32>(from, to),
            64 => copy_blocks_of::<64>(from, to),
            bytes => {
                let ((mut at, step), (mut place, stride)) = (from, to);
                for _ in 0..step.count {
                    copy(at, place, bytes);
                    at = at.wrapping_offset(step.bytes);
                    place = place.wrapping_offset(stride.bytes);
                }
            }
        }
    }
}

/// The same of blocks whose length the compiler knows.
// SAFETY: the caller promises that both sides are valid and apart, as for `copy_blocks`.
unsafe fn copy_blocks_of<const BYTES: usize>(from: (*const u8, Walk), to: (*mut u8, Walk)) {
    let ((mut at, step), (mut place, stride)) = (from, to);
    for _ in 0..step.count {
        // SAFETY: the caller's promise.
        unsafe { copy_nonoverlapping(at, place, BYTES) };
        at = at.wrapping_offset(step.bytes);
        place = place.wrapping_offset(stride.bytes);
    }
}

/// Copies bytes. Few without a call: two moves of a fixed length that may overlap
/// in the middle.
#[inline]
// SAFETY: the caller promises that both sides are valid and apart, as for `copy_blocks`.
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
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

/// Copies from `BYTES` to twice that.
#[inline]
// SAFETY: the caller promises that both sides are valid and apart, as for `copy_blocks`.
unsafe fn copy_ends<const BYTES: usize>(from: *const u8, to: *mut u8, bytes: usize) {
    let last = bytes - BYTES;
    // SAFETY: the caller's promise.
    unsafe {
        copy_nonoverlapping(from, to, BYTES);
        copy_nonoverlapping(from.add(last), to.add(last), BYTES);
    }
}
