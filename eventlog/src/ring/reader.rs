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
    /// `identity`: as the server knows it, not as the memory says, which the
    /// client can write.
    pub fn new(memory: RingMemory, identity: RingIdentity) -> Self {
        Self {
            memory,
            expected: identity.start,
            identity,
            next: Cursor::default(),
            has_taken: false,
        }
    }

    /// Takes the next batch if it is all there, into `batch`. EL-2: only one of
    /// this client in this life, with the next number (the first may have a
    /// lower one, see [`super`]), whose checksum fits.
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
        // Of the copy: neither header nor payload is read again.
        BatchHeader::read(&batch[..bytes]).ok()?;
        self.next = self.next.after(bytes);
        self.expected = header.end();
        self.has_taken = true;
        Some((header, &batch[..bytes]))
    }

    /// Everything taken so far is stored elsewhere: its room is free.
    pub fn release(&mut self) {
        self.release_to(self.next);
    }

    /// Everything before `position` is stored elsewhere.
    pub fn release_to(&mut self, position: Cursor) {
        self.memory.store(word::CONSUMED, position.0);
    }

    /// The place of the next batch.
    pub fn position(&self) -> Cursor {
        self.next
    }

    /// Everything before `end`, whose last clock this is, is on the disk.
    pub fn tell_durable(&mut self, end: EventIndex, clock: Clock) {
        self.memory.store(word::DURABLE_CLOCK, clock.0);
        self.memory.store(word::DURABLE_END, end.0);
    }

    /// The client has to join again. What it placed before it noticed is still
    /// to be taken, by [`RingReader::into_remains`].
    pub fn close(&mut self) {
        self.memory.close();
    }

    /// Closes the ring, to be read as one that was found.
    pub fn into_remains(self) -> RingRemains {
        RingRemains::new(self.memory, self.identity)
    }

    /// Whether the server is about to sleep; look once more after this said so.
    pub fn set_sleeps(&mut self, sleeps: bool) {
        self.memory.store(word::SLEEPS, sleeps.into());
        fence(Ordering::SeqCst);
    }

    /// The ring.
    pub fn memory(&self) -> &RingMemory {
        &self.memory
    }

    /// Whose it is.
    pub fn identity(&self) -> &RingIdentity {
        &self.identity
    }

    /// Number of the determinant that comes next.
    pub fn expected(&self) -> EventIndex {
        self.expected
    }
}
