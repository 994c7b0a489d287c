//! Buffers of collectives whose elements do not lie one behind the other.
//!
//! The *dense form* of a buffer is its elements one behind the other. A schedule counts in it, so
//! the same steps serve all layouts, and members may have different ones.

#![allow(
    unsafe_code,
    reason = "works on the caller's memory while the collective is under way"
)]

use super::Collective;
use refrain_collectives::{Buffer, Part};
use refrain_transport::engine::{ReceiveBuffer, SendBuffer};
use refrain_transport::layout::Layout;
use std::sync::Arc;

/// Where the bytes of input and output are: stretches in the order of the dense form, the first of
/// which begins at byte 0. `None`: the buffer is dense itself.
#[derive(Clone, Debug, Default)]
pub struct Layouts {
    /// The input.
    pub input: Option<Arc<[Stretch]>>,
    /// The output.
    pub output: Option<Arc<[Stretch]>>,
}

/// A part of the dense form, up to the beginning of the next stretch: copies of a layout, each an
/// extent behind the previous one.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// The first byte in the dense form.
    pub start: u64,
    /// Where the first copy is, from the beginning of the buffer.
    pub offset_bytes: isize,
    /// The layout.
    pub layout: Arc<Layout>,
}

impl Layouts {
    /// The stretch of a byte in the dense form of a buffer, unless that is dense itself.
    fn stretch(&self, buffer: Buffer, byte: u64) -> Option<&Stretch> {
        let stretches = match buffer {
            Buffer::Input => self.input.as_ref()?,
            Buffer::Output => self.output.as_ref()?,
            Buffer::Scratch => return None,
        };
        // Of stretches with one beginning, all but the last are empty.
        let behind = stretches.partition_point(|it| it.start <= byte);
        stretches.get(behind.checked_sub(1)?)
    }
}

impl Collective {
    /// The bytes of a part, to read.
    ///
    /// # Safety
    /// As [`SendBuffer::bytes`].
    #[inline(always)]
    pub(super) unsafe fn data(&mut self, part: Part) -> SendBuffer {
        // SAFETY: the caller's promise, and that for the buffers of the collective.
        unsafe {
            match self.plan.layouts {
                None => SendBuffer::bytes(self.address(part), self.bytes(part)),
                Some(_) => self.data_laid_out(part),
            }
        }
    }

    /// The bytes of a part, to write.
    ///
    /// # Safety
    /// As [`ReceiveBuffer::bytes`].
    #[inline(always)]
    pub(super) unsafe fn room(&mut self, part: Part) -> ReceiveBuffer {
        // SAFETY: the caller's promise, and that for the buffers of the collective.
        unsafe {
            match self.plan.layouts {
                None => ReceiveBuffer::bytes(self.address(part), self.bytes(part)),
                Some(_) => self.room_laid_out(part),
            }
        }
    }

    /// Copies a part to another one.
    ///
    /// # Safety
    /// The parts are readable and writable, and apart.
    #[inline(always)]
    pub(super) unsafe fn copy(&mut self, from: Part, into: Part) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.plan.layouts {
                None => {
                    let (from, bytes) = (self.address(from), self.bytes(into));
                    self.address(into).copy_from_nonoverlapping(from, bytes);
                }
                Some(_) => self.copy_laid_out(from, into),
            }
        }
    }

    // SAFETY: the caller promises what `copy` asks for.
    #[cold]
    #[inline(never)]
    unsafe fn copy_laid_out(&mut self, from: Part, into: Part) {
        // SAFETY: the caller's promise.
        unsafe { self.data_laid_out(from).copy_to(&self.room_laid_out(into)) };
    }

    // SAFETY: the caller promises what `data` asks for.
    #[cold]
    #[inline(never)]
    unsafe fn data_laid_out(&mut self, part: Part) -> SendBuffer {
        let bytes = self.bytes(part);
        // SAFETY: the caller's promise.
        unsafe {
            match self.laid_out(part) {
                None => SendBuffer::bytes(self.address(part), bytes),
                Some((base, start, layout)) => {
                    SendBuffer::within(base, layout, start, bytes as u64)
                }
            }
        }
    }

    // SAFETY: the caller promises what `room` asks for.
    #[cold]
    #[inline(never)]
    unsafe fn room_laid_out(&mut self, part: Part) -> ReceiveBuffer {
        let bytes = self.bytes(part);
        // SAFETY: the caller's promise.
        unsafe {
            match self.laid_out(part) {
                None => ReceiveBuffer::bytes(self.address(part), bytes),
                Some((base, start, layout)) => {
                    ReceiveBuffer::within(base, layout, start, bytes as u64)
                }
            }
        }
    }

    /// The layout of a part, unless it is dense: where its first copy is, and which byte of what
    /// the copies pick is the first one of the part.
    fn laid_out(&self, part: Part) -> Option<(*mut u8, u64, &Arc<Layout>)> {
        let layouts = self.plan.layouts.as_ref()?;
        let byte = part.start * self.plan.memory.element_bytes;
        let stretch = layouts.stretch(part.buffer, byte)?;
        let base = match part.buffer {
            Buffer::Input => self.plan.memory.input.cast_mut(),
            _ => self.plan.memory.output,
        };
        let base = base.wrapping_offset(stretch.offset_bytes);
        Some((base, byte - stretch.start, &stretch.layout))
    }
}
