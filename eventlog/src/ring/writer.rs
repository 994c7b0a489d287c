//! The client's side of a ring in shared memory.

use super::{Cursor, RingMemory, word};
use core::sync::atomic::{Ordering, fence};
use refrain_logging::determinant::EventIndex;
use refrain_ring::Clock;

/// The ring has no room: the server has not stored enough of it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Writes batches into a ring.
#[derive(Debug)]
pub struct RingWriter {
    memory: RingMemory,
    next: Cursor,
    consumed: Cursor,
    /// A batch lies at `next`, but for its first word.
    is_prepared: bool,
}

impl RingWriter {
    /// Writes into a ring that nobody has written to yet.
    pub fn new(memory: RingMemory) -> Self {
        Self {
            memory,
            next: Cursor::default(),
            consumed: Cursor::default(),
            is_prepared: false,
        }
    }

    /// Places a batch: it is in the logger's memory when this returns. EL-1
    ///
    /// # Errors
    /// [`Full`]: nothing was written.
    #[inline]
    pub fn write(&mut self, batch: &[u8]) -> Result<(), Full> {
        self.is_prepared = false;
        self.find_room(batch)?;
        self.memory.write(self.next.offset(), batch);
        self.next = self.next.after(batch.len());
        Ok(())
    }

    /// Stores all but the first word of a batch that may be the next: nobody takes
    /// it. EL-2
    ///
    /// # Errors
    /// [`Full`]: nothing was written.
    pub fn prepare(&mut self, batch: &[u8]) -> Result<(), Full> {
        self.is_prepared = false;
        self.find_room(batch)?;
        self.memory.prepare(self.next.offset(), batch);
        self.is_prepared = true;
        Ok(())
    }

    /// [`RingWriter::write`] of the batch that was prepared last, if anything
    /// was. EL-1
    ///
    /// # Errors
    /// [`Full`]: nothing was written.
    #[inline(always)]
    pub fn write_prepared(&mut self, batch: &[u8]) -> Result<(), Full> {
        if !std::mem::take(&mut self.is_prepared) {
            return self.write(batch);
        }
        self.memory.publish(self.next.offset(), batch);
        self.next = self.next.after(batch.len());
        Ok(())
    }

    #[inline]
    fn find_room(&mut self, batch: &[u8]) -> Result<(), Full> {
        if self.next.is_full(batch.len(), self.consumed) {
            // Shared, and rarely moved: only looked at when it must have moved.
            self.consumed = Cursor(self.memory.load(word::CONSUMED));
            if self.next.is_full(batch.len(), self.consumed) {
                return Err(Full);
            }
        }
        Ok(())
    }

    /// Bytes that were written so far, skipped ends of the ring among them.
    pub fn position(&self) -> Cursor {
        self.next
    }

    /// Up to where the server has stored the batches elsewhere.
    pub fn consumed(&self) -> Cursor {
        Cursor(self.memory.load(word::CONSUMED))
    }

    /// One past the last durable determinant, and its clock. GATE-3: whose they
    /// are, the ring's identity says.
    pub fn durable(&self) -> (EventIndex, Clock) {
        let end = self.memory.load(word::DURABLE_END);
        (
            EventIndex(end),
            Clock(self.memory.load(word::DURABLE_CLOCK)),
        )
    }

    /// This client was fenced, or cut off, or the server ended: it has to join
    /// again. Asked after a write: either this says so, or what was written is
    /// sure to be taken. EL-3
    pub fn is_closed(&self) -> bool {
        // Pairs with the fence of RingMemory::close.
        fence(Ordering::SeqCst);
        self.memory.load(word::CLOSED) != 0
    }

    /// The server sleeps until it is rung. Asked after a write: either this
    /// says so, or the server sees the write before it sleeps.
    pub fn server_sleeps(&self) -> bool {
        // Pairs with the fence of RingReader::set_sleeps: both sides store one
        // word and load the other's.
        fence(Ordering::SeqCst);
        self.memory.load(word::SLEEPS) != 0
    }
}
