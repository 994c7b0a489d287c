//! Registered memory cut into slots of one size: for messages that arrive, and
//! for headers that leave.

#![allow(
    unsafe_code,
    reason = "reads and writes registered memory that the device shares"
)]

use refrain_libfabric::native::MessageEndpoint;
use refrain_libfabric::native::{Access, MemoryId, Part};
use refrain_ring::Region;

/// Slots of one size in one registered piece of memory.
///
/// A slot belongs to the provider from the call that gives it away (a receive, a
/// send) until the completion of that operation came, and to this process
/// otherwise. The callers of [`Slots::arrived`] and [`Slots::write`] keep this
/// rule: they name only slots whose completion they hold, or that were never given away.
#[derive(Debug)]
pub struct Slots {
    region: Region,
    memory: MemoryId,
    slot_bytes: usize,
    count: usize,
}

impl Slots {
    /// Allocates and registers the slots.
    ///
    /// # Errors
    /// When the provider does not register the memory.
    pub fn new<E: MessageEndpoint>(
        endpoint: &mut E,
        slot_bytes: usize,
        count: usize,
    ) -> Result<Self, E::Error> {
        let slot_bytes = slot_bytes.next_multiple_of(64);
        let region = Region::heap(slot_bytes * count);
        let memory = endpoint.register(&region, Access::LOCAL)?;
        Ok(Self {
            region,
            memory,
            slot_bytes,
            count,
        })
    }

    /// Number of slots.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first `bytes` bytes of a slot, for an operation.
    #[inline]
    pub fn part(&self, slot: usize, bytes: usize) -> Part {
        debug_assert!(
            bytes <= self.slot_bytes,
            "a slot has {} bytes",
            self.slot_bytes
        );
        Part {
            memory: self.memory,
            offset: slot * self.slot_bytes,
            bytes,
        }
    }

    /// The whole of a slot, for an operation.
    #[inline]
    pub fn whole(&self, slot: usize) -> Part {
        self.part(slot, self.slot_bytes)
    }

    /// Its memory.
    #[inline]
    pub fn memory(&self) -> MemoryId {
        self.memory
    }

    /// Where a slot begins.
    #[inline]
    pub fn at(&self, slot: usize) -> core::ptr::NonNull<u8> {
        assert!(slot < self.count, "there is no slot {slot}");
        core::ptr::NonNull::new(self.region.at(slot * self.slot_bytes))
            .expect("a region does not begin at address 0")
    }

    /// The message that has arrived in a slot.
    #[inline]
    pub fn arrived(&self, slot: usize, bytes: usize) -> &[u8] {
        assert!(
            slot < self.count && bytes <= self.slot_bytes,
            "a slot's bytes"
        );
        // SAFETY: in bounds by the assertion; the operation on this slot has
        // completed, so the provider does not write there before it is given
        // away again, which takes `&mut` of the endpoint that owns `self`.
        unsafe { core::slice::from_raw_parts(self.region.at(slot * self.slot_bytes), bytes) }
    }

    /// Puts `head` at the start of a slot, and lets `fill` write the bytes behind.
    #[inline]
    pub fn fill(&mut self, slot: usize, head: &[u8], bytes: usize, fill: impl FnOnce(&mut [u8])) {
        self.write(slot, head, &[]);
        let end = head.len() + bytes;
        assert!(end <= self.slot_bytes, "a slot's bytes");
        let to = self.region.at(slot * self.slot_bytes + head.len());
        // SAFETY: in bounds by the assertions here and in `write`; the slot is not
        // given away, and `&mut self` makes this the only borrow.
        fill(unsafe { core::slice::from_raw_parts_mut(to, bytes) });
    }

    /// Puts `head` and `tail` one behind the other at the start of a slot.
    #[inline]
    pub fn write(&mut self, slot: usize, head: &[u8], tail: &[u8]) {
        let bytes = head.len() + tail.len();
        assert!(
            slot < self.count && bytes <= self.slot_bytes,
            "a slot's bytes"
        );
        let to = self.region.at(slot * self.slot_bytes);
        // SAFETY: in bounds by the assertion; the slot is not given away, so the
        // provider neither reads nor writes it.
        unsafe {
            core::ptr::copy_nonoverlapping(head.as_ptr(), to, head.len());
            core::ptr::copy_nonoverlapping(tail.as_ptr(), to.add(head.len()), tail.len());
        }
    }
}
