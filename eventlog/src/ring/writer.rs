//! The client's side of a ring in shared memory.
//!
//! With [`Level::Placed`] a batch is where it is to be once it is stored there:
//! the ring is a file, and a server that starts again drains the rings that it
//! finds. That holds even before anything notices that the server is dead: the
//! next server finds what is stored then. A batch must not be stored and counted
//! after the last look at its ring. So a server that gives up a ring (one that
//! starts again, or one that fences this life) sets `CLOSED`, *then* reads the
//! ring once more, and only then answers; a client stores, *then* looks
//! at `CLOSED`. With a full fence between the two steps on both sides, one of
//! them sees the other: the batch is taken, or this client knows that it may not
//! be and sends it to the next ring (which takes it twice without harm, GATE-3).
//!
//! The same fences make sure that with [`Level::Durable`] a server that goes to
//! sleep either sees the batch or is rung.

use super::layout::{Cursor, DATA_BYTES, RingIdentity, word};
use super::memory::RingMemory;
use crate::Level;
use core::sync::atomic::{Ordering, fence};
use refrain_logging::determinant::EventIndex;
use refrain_ring::Clock;
use std::os::fd::OwnedFd;

/// The server is rung when so much was stored since it was rung last.
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
    /// The server may not take it.
    Closed,
}

/// Writes batches into a ring.
#[derive(Debug)]
pub struct RingWriter {
    memory: RingMemory,
    next: Cursor,
    consumed: Cursor,
    /// A batch lies at `next`, but for its first word.
    is_prepared: bool,
    /// Wakes the server.
    bell: Option<OwnedFd>,
    level: Level,
    /// Where the bell was rung last.
    rung: Cursor,
}

impl RingWriter {
    /// Writes into a ring that has no batch yet, without a bell.
    pub fn new(memory: RingMemory) -> Self {
        Self {
            memory,
            next: Cursor::default(),
            consumed: Cursor::default(),
            is_prepared: false,
            bell: None,
            level: Level::Placed,
            rung: Cursor::default(),
        }
    }

    /// Maps a ring that came with a welcome; `identity` is what it has to say.
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

    /// Places a batch, as far as the server is sure to take it. EL-1
    /// `is_prepared`: it is the batch of the last [`RingWriter::prepare`].
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
        self.is_prepared = false;
        self.find_room(batch)?;
        self.memory.write(self.next.offset(), batch);
        self.next = self.next.after(batch.len());
        Ok(())
    }

    /// Stores all but the first word of a batch that may be the next: no reader
    /// takes it. EL-2
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

    /// [`RingWriter::write`] of the batch that was prepared last, if any was
    /// since the last write. EL-1
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
            self.consumed = self.consumed();
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

    /// One past the last durable determinant, and its clock, which may be of a
    /// later one. GATE-3: whose they are, the ring's identity says.
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
    #[inline]
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

    /// Whether it is time to ring the server, and to see whether it lives.
    #[inline]
    pub(crate) fn wants_emptying(&self) -> bool {
        self.next.0 - self.rung.0 >= RING_BELL_BYTES
    }

    /// Whether the server was rung for everything that is there.
    pub(crate) fn was_rung(&self) -> bool {
        self.rung == self.next
    }

    /// Wakes the server, which then reads the batches in the ring.
    pub(crate) fn ring_bell(&mut self) {
        self.rung = self.next;
        if let Some(bell) = &self.bell {
            // An eventfd takes no more only when it is sure to wake.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }
}
