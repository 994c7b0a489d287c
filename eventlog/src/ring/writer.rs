//! The client's side of a ring in shared memory.
//!
//! With [`Level::Placed`] a batch counts at this logger once it is in the ring:
//! the ring is a file, and a server that starts again drains the rings that it
//! finds. That holds even before any process notices that the server is dead. But a batch
//! must not be placed and counted after the last read of its ring. So a server that gives up
//! a ring (one that starts again, or one that fences this life) sets `CLOSED`, *then* reads
//! the ring once more, and only then answers; a client stores the batch, *then* reads
//! `CLOSED`. With a full fence between the two steps on both sides, at least one side
//! sees the other's store: the server takes the batch, or the client sees that it may not
//! have been taken, and sends it to the next ring (which accepts it twice, GATE-3).
//!
//! With [`Level::Durable`], the same fences make sure that a server that goes to
//! sleep either sees the batch or is woken by the client.

use super::layout::{Cursor, DATA_BYTES, RingIdentity, word};
use super::memory::RingMemory;
use crate::Level;
use core::sync::atomic::{Ordering, fence};
use refrain_logging::determinant::EventIndex;
use refrain_ring::Clock;
use std::os::fd::OwnedFd;

/// Bytes written since the last wake-up, from which on the server is woken again.
const RING_BELL_BYTES: u64 = DATA_BYTES as u64 / 4;

/// The ring has no room: the server has not stored enough of it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The result of [`RingWriter::place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The batch is in the ring.
    Placed,
    /// There is no room for it yet.
    Full,
    /// The ring is closed: the server may not take the batch.
    Closed,
}

/// Writes batches into a ring.
#[derive(Debug)]
pub struct RingWriter {
    memory: RingMemory,
    next: Cursor,
    consumed: Cursor,
    /// A batch without its first word lies at `next`, and ends before this position.
    prepared: Option<Cursor>,
    /// Wakes the server.
    bell: Option<OwnedFd>,
    level: Level,
    /// Position at which the server was woken last.
    rung: Cursor,
}

impl RingWriter {
    /// Writes into a ring that has no batch yet, without a bell.
    pub fn new(memory: RingMemory) -> Self {
        Self {
            memory,
            next: Cursor::default(),
            consumed: Cursor::default(),
            prepared: None,
            bell: None,
            level: Level::Placed,
            rung: Cursor::default(),
        }
    }

    /// Maps the ring that came with a welcome, and checks its identity.
    pub(crate) fn open(
        ring: OwnedFd,
        bell: OwnedFd,
        identity: &RingIdentity,
        level: Level,
    ) -> Result<Self, String> {
        let memory = RingMemory::open(ring).map_err(|error| format!("its ring: {error}"))?;
        let found = memory.identity();
        if found != *identity {
            return Err(format!("its ring is {found:?} and not {identity:?}"));
        }
        Ok(Self {
            bell: Some(bell),
            level,
            ..Self::new(memory)
        })
    }

    /// Places a batch, and checks that the server will take it. EL-1
    /// `is_prepared`: the batch is that of the last [`RingWriter::prepare`].
    #[inline(always)]
    pub(crate) fn place(&mut self, batch: &[u8], is_prepared: bool) -> Placement {
        let written = match is_prepared {
            true => self.write_prepared(batch),
            false => self.write(batch),
        };
        if written == Err(Full) {
            return Placement::Full;
        }
        if self.is_closed() {
            return Placement::Closed;
        }
        if self.level == Level::Durable && self.server_sleeps() {
            self.ring_bell();
        }
        Placement::Placed
    }

    /// Stores a batch: it is in the logger's memory when this returns. EL-1
    ///
    /// # Errors
    /// [`Full`]: nothing was written.
    #[inline]
    pub fn write(&mut self, batch: &[u8]) -> Result<(), Full> {
        self.prepared = None;
        self.find_room(batch)?;
        self.memory.write(self.next.offset(), batch);
        self.next = self.next.after(batch.len());
        Ok(())
    }

    /// Stores all but the first word of the batch that may come next: no reader
    /// takes it. EL-2
    ///
    /// # Errors
    /// [`Full`]: nothing was written.
    pub fn prepare(&mut self, batch: &[u8]) -> Result<(), Full> {
        self.prepared = None;
        self.find_room(batch)?;
        self.memory.prepare(self.next.offset(), batch);
        self.prepared = Some(self.next.after(batch.len()));
        Ok(())
    }

    /// As [`RingWriter::write`], for the batch that was prepared since the last
    /// write, if any. EL-1
    ///
    /// # Errors
    /// [`Full`]: nothing was written.
    #[inline(always)]
    pub fn write_prepared(&mut self, batch: &[u8]) -> Result<(), Full> {
        let Some(end) = self.prepared.take() else {
            return self.write(batch);
        };
        self.memory.publish(self.next.offset(), batch);
        self.next = end;
        Ok(())
    }

    #[inline]
    fn find_room(&mut self, batch: &[u8]) -> Result<(), Full> {
        if self.next.is_full(batch.len(), self.consumed) {
            // The shared word is read only when the known value is too low.
            self.consumed = self.consumed();
            if self.next.is_full(batch.len(), self.consumed) {
                return Err(Full);
            }
        }
        Ok(())
    }

    /// Bytes written so far, including skipped ends of the ring.
    pub fn position(&self) -> Cursor {
        self.next
    }

    /// Position up to which the server has stored the batches elsewhere.
    pub fn consumed(&self) -> Cursor {
        Cursor(self.memory.load(word::CONSUMED))
    }

    /// One past the last durable determinant, and a clock, which may be that of a later
    /// determinant. GATE-3: the ring's identity gives their owner.
    pub fn durable(&self) -> (EventIndex, Clock) {
        let end = self.memory.load(word::DURABLE_END);
        (
            EventIndex(end),
            Clock(self.memory.load(word::DURABLE_CLOCK)),
        )
    }

    /// Whether the ring is closed: this client was fenced or disconnected, or the server ended.
    /// The client must join again. Checked after a write: if this is false, the server will take
    /// what was written. EL-3
    #[inline]
    pub fn is_closed(&self) -> bool {
        // Pairs with the fence of RingMemory::close.
        fence(Ordering::SeqCst);
        self.memory.load(word::CLOSED) != 0
    }

    /// Whether the server sleeps until it is woken. Checked after a write: if this is false, the
    /// server sees the write before it sleeps.
    pub fn server_sleeps(&self) -> bool {
        // Pairs with the fence of RingReader::set_sleeps: both sides store one
        // word and load the other's.
        fence(Ordering::SeqCst);
        self.memory.load(word::SLEEPS) != 0
    }

    /// Whether it is time to wake the server, and to check that it lives.
    #[inline]
    pub(crate) fn wants_emptying(&self) -> bool {
        self.next.0 - self.rung.0 >= RING_BELL_BYTES
    }

    /// Whether the server was woken for everything in the ring.
    pub(crate) fn was_rung(&self) -> bool {
        self.rung == self.next
    }

    /// Wakes the server, which then reads the batches in the ring.
    pub(crate) fn ring_bell(&mut self) {
        self.rung = self.next;
        if let Some(bell) = &self.bell {
            // The write fails only when the counter is full, and then the server wakes anyway.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }
}
