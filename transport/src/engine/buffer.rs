//! The user's buffers: borrowed for a call ([`Outgoing`], [`Incoming`]), and lent to
//! an operation by pointer ([`SendBuffer`], [`ReceiveBuffer`]).

#![allow(
    unsafe_code,
    reason = "holds the user's buffers by pointer while requests are under way"
)]

use crate::fabric::Landing;
use crate::layout::{Layout, LayoutError, PACK, UNPACK};
use core::marker::PhantomData;
use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::slice::{from_raw_parts, from_raw_parts_mut};
use refrain_ring::copy::{STREAM_BYTES_MIN, Target, into_log, out_of_log, plain};
use std::sync::Arc;

/// Data being sent: bytes of the user, or the engine's own copy of them.
#[derive(Debug)]
pub struct SendBuffer {
    base: *const u8,
    message_bytes: u64,
    shape: Shape,
}

/// What is sent.
pub trait Data: Into<SendBuffer> {
    /// Length of the message.
    fn message_bytes(&self) -> u64;

    /// Copies the message into `out`, from byte `offset` on.
    #[doc(hidden)]
    fn pack(&self, offset: u64, out: &mut [u8], target: Target);

    /// The buffer, if it is made.
    #[doc(hidden)]
    fn made(&self) -> Option<&SendBuffer>;
}

impl Data for SendBuffer {
    #[inline]
    fn message_bytes(&self) -> u64 {
        self.message_bytes
    }

    #[inline(always)]
    fn pack(&self, offset: u64, out: &mut [u8], target: Target) {
        SendBuffer::pack(self, offset, out, target);
    }

    #[inline]
    fn made(&self) -> Option<&SendBuffer> {
        Some(self)
    }
}

/// Contiguous bytes: a [`SendBuffer`] that is not made yet, since a short message is sent from
/// registers. A buffer is read as a whole right after its parts are written: that waits until the
/// processor has sent off the last message.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    base: *const u8,
    bytes: usize,
}

impl Bytes {
    /// Contiguous bytes.
    ///
    /// # Safety
    /// As [`SendBuffer::bytes`].
    #[inline(always)]
    pub unsafe fn new(base: *const u8, bytes: usize) -> Self {
        Self { base, bytes }
    }
}

impl From<Bytes> for SendBuffer {
    #[inline]
    fn from(bytes: Bytes) -> Self {
        // SAFETY: the promise of `Bytes::new`.
        unsafe { Self::bytes(bytes.base, bytes.bytes) }
    }
}

impl Data for Bytes {
    #[inline(always)]
    fn message_bytes(&self) -> u64 {
        self.bytes as u64
    }

    #[inline(always)]
    fn pack(&self, offset: u64, out: &mut [u8], target: Target) {
        // SAFETY: as for `SendBuffer::pack`.
        unsafe { pack_piece(self.base.add(offset as usize), out, target) };
    }

    #[inline(always)]
    fn made(&self) -> Option<&SendBuffer> {
        None
    }
}

/// Packs contiguous bytes.
///
/// # Safety
/// They are inside the user's buffer, and apart from the log's memory.
#[inline(always)]
unsafe fn pack_piece(from: *const u8, out: &mut [u8], target: Target) {
    let (to, bytes) = (out.as_mut_ptr(), out.len());
    // SAFETY: the caller's promise.
    unsafe {
        match bytes < STREAM_BYTES_MIN {
            true => plain(from, to, bytes),
            false => into_log(from, to, bytes, target),
        }
    }
}

/// How the bytes of a message lie in memory.
#[derive(Debug)]
enum Shape {
    /// Contiguous, at the base.
    Piece,
    /// As copies of a layout, each an extent behind the previous copy. The message begins `skip`
    /// bytes behind the beginning of what they pick.
    Layout { layout: Arc<Layout>, skip: u64 },
    /// A contiguous copy that the engine owns: the user's buffer had to be given back early, or
    /// other bytes are sent.
    Owned(#[expect(dead_code, reason = "keeps the memory of the base")] Box<[u8]>),
}

/// Memory that a message is received into.
#[derive(Clone, Debug)]
pub struct ReceiveBuffer {
    base: *mut u8,
    room_bytes: u64,
    /// `None`: contiguous.
    form: Option<Arc<dyn Form>>,
}

/// Takes the bytes of a message that do not lie contiguously.
trait Form: core::fmt::Debug + Send + Sync {
    /// Takes `data`, the part of the message from `offset` on.
    ///
    /// # Safety
    /// The part must be inside of the room, which was lent with this base.
    unsafe fn take(&self, base: *mut u8, room_bytes: u64, offset: u64, data: &[u8]);
}

impl Form for Layout {
    // SAFETY: the contract of the trait, which callers keep.
    unsafe fn take(&self, base: *mut u8, room_bytes: u64, offset: u64, data: &[u8]) {
        let from = data.as_ptr().cast_mut();
        // SAFETY: bytes that the user lent to this request alone; the data is only read.
        unsafe { self.copy_several::<UNPACK>(base, room_bytes, offset, from, data.len()) };
    }
}

/// Copies of a layout, from a byte of the first one on.
#[derive(Debug)]
struct Skipping {
    layout: Arc<Layout>,
    skip: u64,
}

impl Form for Skipping {
    // SAFETY: the contract of the trait, which callers keep.
    unsafe fn take(&self, base: *mut u8, room_bytes: u64, offset: u64, data: &[u8]) {
        let (end, offset) = (self.skip + room_bytes, self.skip + offset);
        // SAFETY: as that of the layout, for bytes further on.
        unsafe { self.layout.take(base, end, offset, data) };
    }
}

impl Form for Taker {
    // SAFETY: the function gets a slice: nothing is asked of the caller.
    unsafe fn take(&self, _base: *mut u8, _room_bytes: u64, offset: u64, data: &[u8]) {
        (self.0)(offset, data);
    }
}

/// Takes the parts of a message as they arrive: each with its offset, which is a multiple of
/// [`Taker::ALIGNMENT_BYTES`].
pub struct Taker(Box<TakePart>);

type TakePart = dyn Fn(u64, &[u8]) + Send + Sync;

impl Taker {
    /// Each part but the last one ends at a multiple of this number of bytes.
    pub const ALIGNMENT_BYTES: u64 = 16;

    /// Takes parts by a function. A part comes again, with the same bytes, when its sender is
    /// restarted before all of the message has arrived (REC-7).
    pub fn new(take: impl Fn(u64, &[u8]) + Send + Sync + 'static) -> Self {
        Self(Box::new(take))
    }
}

impl core::fmt::Debug for Taker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Taker").finish_non_exhaustive()
    }
}

/// A buffer that is borrowed for a call.
#[derive(Debug)]
pub struct Borrowed<'a, B> {
    buffer: B,
    borrow: PhantomData<&'a mut [u8]>,
}

/// Data to send: bytes, or those bytes that a [`Layout`] picks.
pub type Outgoing<'a> = Borrowed<'a, SendBuffer>;

/// Room to receive into: bytes, or those bytes that a [`Layout`] picks.
pub type Incoming<'a> = Borrowed<'a, ReceiveBuffer>;

/// Start of the bytes of `count` layouts, if they are contiguous.
fn one_piece(base: *mut u8, count: u64, layout: &Layout) -> Option<*mut u8> {
    let begin = layout.is_contiguous()?;
    let is_dense = layout.extent_bytes() as u64 == layout.message_bytes();
    (count == 1 || is_dense).then(|| base.wrapping_offset(begin))
}

/// Part of what copies of a layout pick from an address.
enum Window {
    /// Contiguous, at this address.
    Piece(*mut u8),
    /// In copies from this address on, without the first `skip` bytes.
    Layouts { base: *mut u8, skip: u64 },
}

impl Window {
    /// `bytes` bytes from byte `start` on.
    fn new(base: *mut u8, layout: &Layout, start: u64, bytes: u64) -> Self {
        if bytes == 0 || layout.message_bytes() == 0 {
            return Self::Piece(base);
        }
        let (base, skip) = layout.at(base, start);
        let copies = (skip + bytes).div_ceil(layout.message_bytes());
        match one_piece(base, copies, layout) {
            Some(piece) => Self::Piece(piece.wrapping_add(skip as usize)),
            None => Self::Layouts { base, skip },
        }
    }
}

/// The base for layouts: null becomes address 0, where offsets are addresses.
fn with_addresses(base: *mut u8) -> *mut u8 {
    match base.is_null() {
        true => with_exposed_provenance_mut(0),
        false => base,
    }
}

fn message_bytes(count: u64, layout: &Layout) -> Result<u64, LayoutError> {
    let bytes = layout.message_bytes().checked_mul(count);
    bytes.ok_or(LayoutError::Message)
}

impl SendBuffer {
    /// Contiguous bytes.
    ///
    /// # Safety
    /// The bytes must stay readable and unchanged until the send is complete or
    /// detached, or its engine is dropped.
    #[inline]
    pub unsafe fn bytes(base: *const u8, bytes: usize) -> Self {
        Self {
            base,
            message_bytes: bytes as u64,
            shape: Shape::Piece,
        }
    }

    /// Bytes that `count` copies of the layout pick from `base`. Each copy begins an extent of the
    /// layout behind the previous one. With a null base the offsets of the layout are addresses.
    ///
    /// # Errors
    /// [`LayoutError::Message`].
    ///
    /// # Safety
    /// As [`SendBuffer::bytes`], for all bytes that the layouts pick. Where their
    /// addresses come from integers, they must be exposed.
    pub unsafe fn laid_out(
        base: *const u8,
        count: u64,
        layout: Arc<Layout>,
    ) -> Result<Self, LayoutError> {
        let base = with_addresses(base.cast_mut());
        let piece = one_piece(base, count, &layout);
        Ok(Self {
            base: piece.unwrap_or(base),
            message_bytes: message_bytes(count, &layout)?,
            shape: match piece {
                Some(_) => Shape::Piece,
                None => Shape::Layout { layout, skip: 0 },
            },
        })
    }

    /// `bytes` bytes, from byte `start` on, of what copies of the layout pick from `base`: see
    /// [`SendBuffer::laid_out`].
    ///
    /// # Safety
    /// As [`SendBuffer::bytes`], for those bytes.
    pub unsafe fn within(base: *const u8, layout: &Arc<Layout>, start: u64, bytes: u64) -> Self {
        let (base, shape) = match Window::new(base.cast_mut(), layout, start, bytes) {
            Window::Piece(piece) => (piece, Shape::Piece),
            Window::Layouts { base, skip } => {
                let layout = Arc::clone(layout);
                (base, Shape::Layout { layout, skip })
            }
        };
        Self {
            base,
            message_bytes: bytes,
            shape,
        }
    }

    /// Copies the data into a room of the same length.
    ///
    /// # Safety
    /// The data is readable, the room is writable, and they are apart.
    pub unsafe fn copy_to(&self, room: &ReceiveBuffer) {
        let bytes = self.message_bytes;
        debug_assert_eq!(bytes, room.room_bytes);
        if bytes > 0 && matches!(self.shape, Shape::Piece) {
            // SAFETY: readable by the caller's promise.
            return room.unpack(0, unsafe { from_raw_parts(self.base, bytes as usize) });
        }
        if bytes > 0 && room.form.is_none() {
            // SAFETY: writable by the caller's promise.
            let room = unsafe { from_raw_parts_mut(room.base, bytes as usize) };
            return self.pack(0, room, Target::Cached);
        }
        let mut buffer = [0; 4096];
        for offset in (0..bytes).step_by(buffer.len()) {
            let part = &mut buffer[..(bytes - offset).min(4096) as usize];
            self.pack(offset, part, Target::Cached);
            room.unpack(offset, part);
        }
    }

    /// Bytes that the engine owns.
    pub fn owned(bytes: Box<[u8]>) -> Self {
        Self {
            base: bytes.as_ptr(),
            message_bytes: bytes.len() as u64,
            shape: Shape::Owned(bytes),
        }
    }

    /// Whether the engine owns the bytes.
    pub(super) fn is_owned(&self) -> bool {
        matches!(self.shape, Shape::Owned(_))
    }

    /// The same bytes, for a further send.
    ///
    /// # Safety
    /// The contract of the constructor holds for that send, too.
    pub unsafe fn again(&self) -> Self {
        Self {
            base: self.base,
            message_bytes: self.message_bytes,
            shape: match &self.shape {
                Shape::Piece => Shape::Piece,
                Shape::Layout { layout, skip } => Shape::Layout {
                    layout: Arc::clone(layout),
                    skip: *skip,
                },
                Shape::Owned(_) => unreachable!("only sends that are under way have copies"),
            },
        }
    }

    /// Length of the message.
    #[inline]
    pub fn message_bytes(&self) -> u64 {
        self.message_bytes
    }

    /// Copies the message into `out`, from byte `offset` on.
    #[inline(always)]
    pub(super) fn pack(&self, offset: u64, out: &mut [u8], target: Target) {
        debug_assert!(offset + out.len() as u64 <= self.message_bytes());
        if let Shape::Layout { layout, skip } = &self.shape {
            let (to, bytes) = (out.as_mut_ptr(), out.len());
            let base = self.base.cast_mut();
            let (end, offset) = (skip + self.message_bytes, skip + offset);
            // SAFETY: the user lent these bytes for reading.
            unsafe { layout.copy_several::<PACK>(base, end, offset, to, bytes) };
            return;
        }
        // SAFETY: inside the user's buffer, by the constructor's contract; log
        // memory and user memory are apart.
        unsafe { pack_piece(self.base.add(offset as usize), out, target) };
    }

    /// Copies the bytes that are not packed yet, so that the user's buffer is free.
    pub(super) fn detach(&mut self, packed_bytes: u64) {
        let bytes = self.message_bytes() as usize;
        let mut copy = vec![0; bytes].into_boxed_slice();
        let rest = &mut copy[packed_bytes as usize..];
        self.pack(packed_bytes, rest, Target::Cached);
        *self = Self::owned(copy);
    }
}

impl ReceiveBuffer {
    /// Contiguous room.
    ///
    /// # Safety
    /// The bytes must stay writable and untouched by others until the receive
    /// is complete, cancelled or detached, or its engine is dropped.
    #[inline]
    pub unsafe fn bytes(base: *mut u8, bytes: usize) -> Self {
        Self {
            base,
            room_bytes: bytes as u64,
            form: None,
        }
    }

    /// Room for `bytes` bytes, which a function takes.
    pub fn taken(bytes: u64, by: Taker) -> Self {
        Self {
            base: NonNull::dangling().as_ptr(),
            room_bytes: bytes,
            form: Some(Arc::new(by)),
        }
    }

    /// Room that `count` layouts pick from `base`, as in [`SendBuffer::laid_out`].
    ///
    /// # Errors
    /// [`LayoutError::Message`], [`LayoutError::Overlap`].
    ///
    /// # Safety
    /// As [`ReceiveBuffer::bytes`], for all bytes that the layouts pick. No two of the layouts pick
    /// the same byte.
    pub unsafe fn laid_out(
        base: *mut u8,
        count: u64,
        layout: Arc<Layout>,
    ) -> Result<Self, LayoutError> {
        if layout.overlaps() {
            return Err(LayoutError::Overlap);
        }
        let base = with_addresses(base);
        let piece = one_piece(base, count, &layout);
        Ok(Self {
            base: piece.unwrap_or(base),
            room_bytes: message_bytes(count, &layout)?,
            form: piece.is_none().then_some(layout as Arc<dyn Form>),
        })
    }

    /// Room for `bytes` bytes, from byte `start` on, in copies of the layout from `base` on: see
    /// [`SendBuffer::laid_out`].
    ///
    /// # Safety
    /// As [`ReceiveBuffer::laid_out`], for those bytes. The layout does not [overlap](Layout::overlaps).
    pub unsafe fn within(base: *mut u8, layout: &Arc<Layout>, start: u64, bytes: u64) -> Self {
        let (base, form): (_, Option<Arc<dyn Form>>) = match Window::new(base, layout, start, bytes)
        {
            Window::Piece(piece) => (piece, None),
            Window::Layouts { base, skip: 0 } => (base, Some(Arc::clone(layout) as _)),
            Window::Layouts { base, skip } => {
                let layout = Arc::clone(layout);
                (base, Some(Arc::new(Skipping { layout, skip })))
            }
        };
        Self {
            base,
            room_bytes: bytes,
            form,
        }
    }

    /// No room: the whole payload is dropped.
    pub(super) fn nowhere() -> Self {
        Self {
            base: NonNull::dangling().as_ptr(),
            room_bytes: 0,
            form: None,
        }
    }

    /// Capacity, in bytes.
    #[inline]
    pub fn room_bytes(&self) -> u64 {
        self.room_bytes
    }

    /// Copies `data`, the part of the message from `offset` on. Bytes that do not fit are dropped.
    #[inline(always)]
    pub(super) fn unpack(&self, offset: u64, data: &[u8]) {
        let room = self.room_bytes().saturating_sub(offset);
        let data = &data[..data.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        if data.is_empty() {
            return;
        }
        let (from, bytes) = (data.as_ptr(), data.len());
        match &self.form {
            // SAFETY: clipped to the user's buffer; log and user memory are apart.
            None => unsafe {
                let to = self.base.add(offset as usize);
                match bytes < STREAM_BYTES_MIN {
                    true => plain(from, to, bytes),
                    false => out_of_log(from, to, bytes),
                }
            },
            // SAFETY: clipped to the room.
            Some(form) => unsafe { form.take(self.base, self.room_bytes, offset, data) },
        }
    }

    /// Lends room to a landing of `bytes` bytes of the message from `offset` on, if all of them fit
    /// and the room is contiguous. Before that landing has ended, the engine neither reports the
    /// end of the receive nor gives the buffer back.
    pub(super) fn lend(&self, offset: u64, bytes: usize, token: u64) -> Option<Landing> {
        let end = offset.checked_add(bytes as u64)?;
        if end > self.room_bytes || self.form.is_some() {
            return None;
        }
        // SAFETY: inside the user's buffer, which is this request's alone until
        // the receive is over.
        unsafe {
            let to = self.base.add(offset as usize);
            Some(Landing::new(NonNull::new(to)?, bytes, token))
        }
    }
}

impl<B> Borrowed<'_, B> {
    /// Gives the buffer to an operation.
    ///
    /// # Safety
    /// The operation must be complete or detached, or its engine dropped, before the borrow ends.
    #[inline]
    pub unsafe fn lent(self) -> B {
        self.buffer
    }
}

impl<B> From<B> for Borrowed<'_, B> {
    /// The constructor of the buffer required the safety contract.
    #[inline]
    fn from(buffer: B) -> Self {
        Self {
            buffer,
            borrow: PhantomData,
        }
    }
}

impl<'a> Outgoing<'a> {
    /// The bytes of `data` that `layout` picks, in the order of the layout.
    ///
    /// # Errors
    /// When the layout reaches beyond `data`.
    pub fn with_layout(data: &'a [u8], layout: &Arc<Layout>) -> Result<Self, LayoutError> {
        layout.check_send(data.len())?;
        // SAFETY: all of the layout lies in `data`, which is borrowed for `'a`.
        unsafe { SendBuffer::laid_out(data.as_ptr(), 1, Arc::clone(layout)) }.map(Self::from)
    }
}

impl<'a> Incoming<'a> {
    /// The bytes of `room` that `layout` picks, in the order of the layout.
    ///
    /// # Errors
    /// When the layout reaches beyond `room`, or names a byte twice.
    pub fn with_layout(room: &'a mut [u8], layout: &Arc<Layout>) -> Result<Self, LayoutError> {
        layout.check_receive(room.len())?;
        // SAFETY: all of the layout lies in `room`, which is borrowed for `'a`.
        unsafe { ReceiveBuffer::laid_out(room.as_mut_ptr(), 1, Arc::clone(layout)) }.map(Self::from)
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Outgoing<'a> {
    #[inline]
    fn from(data: &'a T) -> Self {
        let data = data.as_ref();
        // SAFETY: borrowed for `'a`; no operation keeps it for longer.
        unsafe { SendBuffer::bytes(data.as_ptr(), data.len()) }.into()
    }
}

impl<'a, T: AsMut<[u8]> + ?Sized> From<&'a mut T> for Incoming<'a> {
    #[inline]
    fn from(room: &'a mut T) -> Self {
        let room = room.as_mut();
        // SAFETY: borrowed for `'a`, exclusively; no operation keeps it for longer.
        unsafe { ReceiveBuffer::bytes(room.as_mut_ptr(), room.len()) }.into()
    }
}

/// Memory of the engine where payload lands.
#[derive(Debug)]
pub(super) struct Staging(Box<[u8]>);

/// Staging memory that the fabric writes to. Dropping it leaks the memory, because the fabric may
/// still write to it.
#[derive(Debug)]
pub(super) struct Lent(NonNull<[u8]>);

impl Staging {
    pub(super) fn new(bytes: usize) -> Self {
        Self(vec![0; bytes].into())
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.len()
    }

    /// Copies `payload` to the beginning.
    pub(super) fn fill(&mut self, payload: &[u8]) {
        self.0[..payload.len()].copy_from_slice(payload);
    }

    /// The first `bytes` bytes, which have landed.
    pub(super) fn payload(&self, bytes: usize) -> &[u8] {
        &self.0[..bytes]
    }

    pub(super) fn lend(self, bytes: usize, token: u64) -> (Lent, Landing) {
        assert!(bytes <= self.capacity());
        let memory = NonNull::from(Box::leak(self.0));
        // SAFETY: there is no other pointer to it, and it is a box again only by
        // `Lent::end`.
        let landing = unsafe { Landing::new(memory.cast(), bytes, token) };
        (Lent(memory), landing)
    }
}

impl Lent {
    /// Takes the memory back. Call this when the landing has ended, or its fabric was closed.
    pub(super) fn end(self) -> Staging {
        // SAFETY: it was a box, and is not written any more.
        Staging(unsafe { Box::from_raw(self.0.as_ptr()) })
    }
}
