//! The server's side of a ring.

use super::layout::{Cursor, RingIdentity, word};
use super::memory::RingMemory;
use super::remains::RingRemains;
use core::sync::atomic::{Ordering, fence};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, BatchHeader, HEADER_BYTES};
use refrain_ring::Clock;

/// Takes batches out of a ring, in order.
#[derive(Debug)]
pub struct RingReader {
    memory: RingMemory,
    identity: RingIdentity,
    next: Cursor,
    expected: EventIndex,
    has_taken: bool,
}

impl RingReader {
    /// Reads a ring from its beginning.
    ///
    /// `identity`: as the server knows it; the client can write to the memory.
    pub fn new(memory: RingMemory, identity: RingIdentity) -> Self {
        Self {
            memory,
            expected: identity.start,
            identity,
            next: Cursor::default(),
            has_taken: false,
        }
    }

    /// Takes the next batch into `batch` if it is complete. EL-2: it must be of
    /// this client and incarnation, with the next number (the first may have a
    /// lower one, see [`super`]), and its checksum must be correct.
    #[inline]
    pub fn take<'a>(
        &mut self,
        batch: &'a mut [u8; BATCH_BYTES_MAX],
    ) -> Option<(BatchHeader, &'a [u8])> {
        let offset = self.next.offset();
        self.memory.read(offset, &mut batch[..HEADER_BYTES]);
        let header = BatchHeader::peek(&batch[..HEADER_BYTES]).ok()?;
        let is_next = if self.has_taken {
            header.first == self.expected
        } else {
            header.first <= self.expected
        };
        if !is_next || !self.identity.is_of(&header) {
            return None;
        }
        let bytes = header.batch_bytes();
        self.memory
            .read(offset + HEADER_BYTES, &mut batch[HEADER_BYTES..bytes]);
        // Checks the copy: neither header nor payload is read from the ring again.
        BatchHeader::read(&batch[..bytes]).ok()?;
        self.next = self.next.after(bytes);
        self.expected = header.end();
        self.has_taken = true;
        Some((header, &batch[..bytes]))
    }

    /// Frees the room of all batches taken so far: they are stored elsewhere.
    pub fn release(&mut self) {
        self.release_to(self.next);
    }

    /// Frees the room before `position`: its batches are stored elsewhere.
    pub fn release_to(&mut self, position: Cursor) {
        self.memory.store(word::CONSUMED, position.0);
    }

    /// The position of the next batch.
    pub fn position(&self) -> Cursor {
        self.next
    }

    /// Publishes that all determinants before `end`, the last with `clock`, are on the disk.
    pub fn tell_durable(&mut self, end: EventIndex, clock: Clock) {
        self.memory.store(word::DURABLE_CLOCK, clock.0);
        self.memory.store(word::DURABLE_END, end.0);
    }

    /// Closes the ring: the client must join again. Batches that it placed before it noticed
    /// are still to be taken, by [`RingReader::into_remains`].
    pub fn close(&mut self) {
        self.memory.close();
    }

    /// Closes the ring, and reads it as a server does that found it.
    pub fn into_remains(self) -> RingRemains {
        RingRemains::new(self.memory, self.identity)
    }

    /// Stores whether the server sleeps; before it sleeps it must read the rings once more.
    pub fn set_sleeps(&mut self, sleeps: bool) {
        self.memory.store(word::SLEEPS, sleeps.into());
        fence(Ordering::SeqCst);
    }

    /// The ring.
    pub fn memory(&self) -> &RingMemory {
        &self.memory
    }

    /// The owner of the ring.
    pub fn identity(&self) -> &RingIdentity {
        &self.identity
    }

    /// Number of the next determinant.
    pub fn expected(&self) -> EventIndex {
        self.expected
    }
}
