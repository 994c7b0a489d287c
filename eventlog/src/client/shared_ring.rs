//! Commits by stores into a ring in shared memory.
//!
//! With [`Level::Placed`] a batch is where it is to be once it is stored there:
//! the ring is a file, and a server that starts again drains the rings that it
//! finds. That holds even while nobody has noticed that the server is dead: what
//! is stored then is found by the next one. What must not happen is that
//! something is stored and counted after the last time that anybody looked. So
//! whoever gives up a ring (a server that starts again, or one that fences this
//! life) sets `CLOSED`, *then* takes out what is there once more, and only then
//! answers anybody; a client stores, *then* looks at `CLOSED`. With a full fence
//! between the two steps on both sides, one of them sees the other: the batch is
//! taken, or this client knows that it is not sure to be and sends it to the
//! next ring (which takes it twice without harm, GATE-3).
//!
//! The same fences make sure that with [`Level::Durable`] a server that goes to
//! sleep either sees the batch or is rung.

use crate::Level;
use crate::ring::{Cursor, DATA_BYTES, Full, RingIdentity, RingMemory, RingWriter};
use refrain_logging::determinant::EventIndex;
use refrain_ring::Clock;
use std::os::fd::OwnedFd;

/// The server is rung when so much was stored since it was rung last.
const RING_BELL_BYTES: u64 = DATA_BYTES as u64 / 4;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// It is in the ring.
    Placed,
    /// There is no room for it yet.
    Full,
    /// Nobody is sure to take it.
    Closed,
}

#[derive(Debug)]
pub(super) struct SharedRing {
    writer: RingWriter,
    bell: OwnedFd,
    level: Level,
    /// Where the bell was rung last.
    rung: Cursor,
}

impl SharedRing {
    /// Maps a ring that came with a welcome; `identity` is what it has to say.
    pub fn open(
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
            writer: RingWriter::new(memory),
            bell,
            level,
            rung: Cursor::default(),
        })
    }

    /// Stores a batch. EL-1
    #[inline]
    pub fn place(&mut self, batch: &[u8]) -> Placement {
        match self.writer.write(batch) {
            Ok(()) => self.placed(),
            Err(Full) => Placement::Full,
        }
    }

    /// Stores all of a batch but what makes it one: it may be the next. Where there
    /// is no room, nothing.
    pub fn prepare(&mut self, batch: &[u8]) {
        let _ = self.writer.prepare(batch);
    }

    /// [`SharedRing::place`] of the batch that was prepared last, if anything was
    /// since the last that was placed. EL-1
    #[inline(always)]
    pub fn place_prepared(&mut self, batch: &[u8]) -> Placement {
        match self.writer.write_prepared(batch) {
            Ok(()) => self.placed(),
            Err(Full) => Placement::Full,
        }
    }

    #[inline(always)]
    fn placed(&mut self) -> Placement {
        if self.writer.is_closed() {
            return Placement::Closed;
        }
        if self.level == Level::Durable && self.writer.server_sleeps() {
            self.ring_bell();
        }
        Placement::Placed
    }

    /// Whether it is time to ring the server, and to see whether it lives.
    #[inline]
    pub fn wants_emptying(&self) -> bool {
        self.writer.position().0 - self.rung.0 >= RING_BELL_BYTES
    }

    /// Whether the server was rung for everything that is there.
    pub fn was_rung(&self) -> bool {
        self.rung == self.writer.position()
    }

    /// Wakes the server, which then takes out what is there.
    pub fn ring_bell(&mut self) {
        self.rung = self.writer.position();
        // An eventfd takes no more only when it is sure to wake.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// What is on the disk, and its last clock, which may be of a later one.
    pub fn durable(&self) -> (EventIndex, Clock) {
        self.writer.durable()
    }

    /// Nobody takes anything out of it any more.
    pub fn is_closed(&self) -> bool {
        self.writer.is_closed()
    }
}
