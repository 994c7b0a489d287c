//! Copying between a buffer and the message stream.
//!
//! The part of a message that is asked for is cut into the end of an item,
//! whole items, and the beginning of an item. Ends and beginnings are walked
//! piece by piece; whole items have loops of their own, because per-piece work
//! (bounds, a call of `memcpy`) costs more than to copy a few bytes.

use super::Layout;
use super::blocks::Block;
use core::ops::Range;

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
    /// When the buffer is too short for the layout
    /// ([`check_send`](Self::check_send) tells).
    pub fn pack(&self, buffer: &[u8], offset: u64, out: &mut [u8]) -> usize {
        let bytes = self.clip(offset, out.len());
        let part = self.part(offset, bytes);
        let (head, rest) = out[..bytes].split_at_mut(part.head);
        let (whole, tail) = rest.split_at_mut(part.items_bytes);
        self.pack_pieces(buffer, offset, head);
        self.pack_items(buffer, part.items, whole);
        self.pack_pieces(buffer, offset + (bytes - tail.len()) as u64, tail);
        bytes
    }

    /// Copies `data`, the message from `offset` on, to its places in `buffer`,
    /// until the data or the message ends. Returns the bytes copied. Of
    /// overlapping blocks the later ones win.
    ///
    /// # Panics
    /// When the buffer is too short for the layout
    /// ([`check_receive`](Self::check_receive) tells).
    pub fn unpack(&self, offset: u64, data: &[u8], buffer: &mut [u8]) -> usize {
        let bytes = self.clip(offset, data.len());
        let part = self.part(offset, bytes);
        let (head, rest) = data[..bytes].split_at(part.head);
        let (whole, tail) = rest.split_at(part.items_bytes);
        self.unpack_pieces(offset, head, buffer);
        self.unpack_items(part.items, whole, buffer);
        self.unpack_pieces(offset + (bytes - tail.len()) as u64, tail, buffer);
        bytes
    }

    /// Cuts `bytes` of the message, all of which exist, from `offset` on.
    fn part(&self, offset: u64, bytes: usize) -> Part {
        let item_bytes = self.blocks.bytes();
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

    fn pack_pieces(&self, buffer: &[u8], offset: u64, mut out: &mut [u8]) {
        for piece in self.pieces(offset, out.len()) {
            let (now, rest) = out.split_at_mut(piece.bytes);
            copy(now, &buffer[piece.buffer_offset..][..piece.bytes]);
            out = rest;
        }
    }

    fn unpack_pieces(&self, offset: u64, mut data: &[u8], buffer: &mut [u8]) {
        for piece in self.pieces(offset, data.len()) {
            let (now, rest) = data.split_at(piece.bytes);
            copy(&mut buffer[piece.buffer_offset..][..piece.bytes], now);
            data = rest;
        }
    }

    fn pack_items(&self, buffer: &[u8], items: Range<usize>, out: &mut [u8]) {
        if items.is_empty() {
            return;
        }
        let stride = self.extent_bytes;
        match *self.blocks.as_slice() {
            [block] if block.bytes <= stride => {
                let buffer = &buffer[span(block, items, stride)];
                match block.bytes {
                    1 => pack_blocks::<1>(buffer, stride, out),
                    2 => pack_blocks::<2>(buffer, stride, out),
                    4 => pack_blocks::<4>(buffer, stride, out),
                    8 => pack_blocks::<8>(buffer, stride, out),
                    16 => pack_blocks::<16>(buffer, stride, out),
                    32 => pack_blocks::<32>(buffer, stride, out),
                    64 => pack_blocks::<64>(buffer, stride, out),
                    bytes => {
                        for (out, buffer) in out.chunks_exact_mut(bytes).zip(buffer.chunks(stride))
                        {
                            copy(out, &buffer[..bytes]);
                        }
                    }
                }
            }
            ref blocks => {
                let mut out = out;
                for item in items {
                    for block in blocks {
                        let (now, rest) = out.split_at_mut(block.bytes);
                        copy(now, &buffer[item * stride + block.offset..][..block.bytes]);
                        out = rest;
                    }
                }
            }
        }
    }

    fn unpack_items(&self, items: Range<usize>, data: &[u8], buffer: &mut [u8]) {
        if items.is_empty() {
            return;
        }
        let stride = self.extent_bytes;
        match *self.blocks.as_slice() {
            [block] if block.bytes <= stride => {
                let buffer = &mut buffer[span(block, items, stride)];
                match block.bytes {
                    1 => unpack_blocks::<1>(data, buffer, stride),
                    2 => unpack_blocks::<2>(data, buffer, stride),
                    4 => unpack_blocks::<4>(data, buffer, stride),
                    8 => unpack_blocks::<8>(data, buffer, stride),
                    16 => unpack_blocks::<16>(data, buffer, stride),
                    32 => unpack_blocks::<32>(data, buffer, stride),
                    64 => unpack_blocks::<64>(data, buffer, stride),
                    bytes => {
                        for (data, buffer) in
                            data.chunks_exact(bytes).zip(buffer.chunks_mut(stride))
                        {
                            copy(&mut buffer[..bytes], data);
                        }
                    }
                }
            }
            ref blocks => {
                let mut data = data;
                for item in items {
                    for block in blocks {
                        let (now, rest) = data.split_at(block.bytes);
                        copy(
                            &mut buffer[item * stride + block.offset..][..block.bytes],
                            now,
                        );
                        data = rest;
                    }
                }
            }
        }
    }
}

/// The part of the buffer from the first byte of the first block to the last
/// byte of the last one.
fn span(block: Block, items: Range<usize>, stride: usize) -> Range<usize> {
    let first = items.start * stride + block.offset;
    let last = (items.end - 1) * stride + block.offset;
    first..last + block.bytes
}

/// Packs blocks whose length the compiler knows, each at the beginning of a
/// stride.
fn pack_blocks<const BYTES: usize>(buffer: &[u8], stride: usize, out: &mut [u8]) {
    let (out, _) = out.as_chunks_mut::<BYTES>();
    for (out, buffer) in out.iter_mut().zip(buffer.chunks(stride)) {
        if let Some(block) = buffer.first_chunk() {
            *out = *block;
        }
    }
}

/// The reverse of [`pack_blocks`].
fn unpack_blocks<const BYTES: usize>(data: &[u8], buffer: &mut [u8], stride: usize) {
    let (data, _) = data.as_chunks::<BYTES>();
    for (data, buffer) in data.iter().zip(buffer.chunks_mut(stride)) {
        if let Some(block) = buffer.first_chunk_mut() {
            *block = *data;
        }
    }
}

/// Copies slices of one length. Short ones without a call: two moves of a fixed
/// length that may overlap in the middle.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        1 => copy_ends::<1>(to, from),
        2..4 => copy_ends::<2>(to, from),
        4..8 => copy_ends::<4>(to, from),
        8..16 => copy_ends::<8>(to, from),
        16..32 => copy_ends::<16>(to, from),
        32..=64 => copy_ends::<32>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies slices of one length from `BYTES` to twice that.
#[inline]
fn copy_ends<const BYTES: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<BYTES>(), from.last_chunk::<BYTES>())
        && to.len() == from.len()
    {
        to[..BYTES].copy_from_slice(first);
        to[from.len() - BYTES..].copy_from_slice(last);
    }
}
