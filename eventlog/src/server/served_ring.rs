//! The ring of a writer that is connected, and what becomes of it when it is
//! not any more.

use super::ring_name::RingName;
use crate::logbook::{Logbook, Refusal, Ticket, Verdict};
use crate::message::ToClient;
use crate::ring::{
    Cursor, DATA_BYTES, LINE_BYTES, RingIdentity, RingMemory, RingReader, RingRemains,
};
use core::ops::ControlFlow;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BATCH_BYTES_MAX;
use refrain_ring::Clock;
use std::collections::VecDeque;

/// A client that cannot see it gets a message when so much is free again.
const ROOM_TOLD_BYTES: u64 = DATA_BYTES as u64 / 4;
/// Batches that are taken out of one ring before the next has its turn.
const BATCHES_PER_TURN: usize = DATA_BYTES / LINE_BYTES / 4;

/// End and clock of a log, up to a batch.
pub(super) type Place = (EventIndex, Clock);

/// What was drained.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drained {
    /// How many batches.
    pub(super) batches: usize,
    /// End of the last.
    pub(super) last: Option<Place>,
}

#[derive(Debug)]
pub(super) struct ServedRing {
    reader: RingReader,
    /// Up to where the ring was drained when the log ended there.
    marks: VecDeque<(EventIndex, Cursor)>,
    durable_told: EventIndex,
    /// Its client writes by RMA, and needs messages for what it cannot see.
    is_remote: bool,
    /// The last position that was sent to that client.
    room_told: Cursor,
}

impl ServedRing {
    /// `stable`: the end of the log that is the client's own and durable.
    pub(super) fn new(
        memory: RingMemory,
        identity: RingIdentity,
        is_remote: bool,
        stable: Place,
    ) -> Self {
        let mut reader = RingReader::new(memory, identity);
        reader.tell_durable(stable.0, stable.1);
        Self {
            reader,
            marks: VecDeque::new(),
            durable_told: stable.0,
            is_remote,
            room_told: Cursor::default(),
        }
    }

    /// Takes what is there into the logbook. `room`: for one batch.
    pub(super) fn drain(
        &mut self,
        logbook: &mut Logbook,
        room: &mut [u8; BATCH_BYTES_MAX],
    ) -> Result<Drained, Refusal> {
        let mut drained = Drained::default();
        let job = self.reader.identity().job;
        while drained.batches < BATCHES_PER_TURN && has_room(logbook) {
            let Some((header, batch)) = self.reader.take(room) else {
                break;
            };
            logbook.accept_checked(job, &header, batch)?;
            drained.batches += 1;
            drained.last = Some((header.end(), header.last_clock));
        }
        if let Some((end, _)) = drained.last {
            self.marks.push_back((end, self.reader.position()));
        }
        Ok(drained)
    }

    /// Gives back the room of what is written. EL-3 Returns a message for a client that
    /// cannot see it: rarely, and before it can be out of room.
    pub(super) fn release(&mut self, written: EventIndex) -> Option<ToClient> {
        let mut free = None;
        while let Some(&(end, position)) = self.marks.front()
            && end <= written
        {
            free = Some(position);
            self.marks.pop_front();
        }
        let position = free?;
        self.reader.release_to(position);
        let is_told = self.is_remote && position.0 - self.room_told.0 >= ROOM_TOLD_BYTES;
        is_told.then(|| {
            self.room_told = position;
            ToClient::Consumed {
                position: position.0,
            }
        })
    }

    pub(super) fn tell_durable(&mut self, (end, clock): Place) {
        if end != self.durable_told {
            self.durable_told = end;
            self.reader.tell_durable(end, clock);
        }
    }

    pub(super) fn set_sleeps(&mut self, sleeps: bool) {
        self.reader.set_sleeps(sleeps);
    }

    /// Its client has to join again, or is gone.
    pub(super) fn close(self) -> OldRing {
        OldRing::new(self.reader.into_remains())
    }
}

/// Whether one more batch is sure to be accepted.
pub(super) fn has_room(logbook: &Logbook) -> bool {
    logbook.unwritten_bytes() < Logbook::UNWRITTEN_BYTES_MAX / 2
}

/// What may still happen in an old ring.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Its client may not have noticed yet, and write there.
    Waits,
    /// No client writes there any more: it is to be read one last time.
    Ended,
    /// It was; it can go when the store has this.
    Drained(Ticket),
    /// It is damaged from some place on: what was taken before that is to be stored
    /// first.
    Refused(Ticket, Refusal),
}

/// A ring whose client has to join again, or is gone. What the client places
/// there before it notices counts, so the ring is read once more when that is
/// sure to be over, and only then removed. EL-3
#[derive(Debug)]
pub(super) struct OldRing {
    remains: RingRemains,
    stage: Stage,
}

impl OldRing {
    pub(super) fn new(remains: RingRemains) -> Self {
        Self {
            remains,
            stage: Stage::Waits,
        }
    }

    pub(super) fn identity(&self) -> &RingIdentity {
        self.remains.identity()
    }

    pub(super) fn name(&self) -> RingName {
        RingName::of(self.identity())
    }

    /// Takes what the logbook has not yet; says how many batches that were.
    /// What a fenced life has placed too late is refused. EL-3, FENCE-1
    pub(super) fn salvage(&self, logbook: &mut Logbook) -> Result<usize, Refusal> {
        let job = self.identity().job;
        let mut taken = 0;
        let stopped = self.remains.each(|_, batch| {
            match logbook.accept(job, batch) {
                Ok(Verdict::Taken) => taken += 1,
                // Stored long ago; perhaps not needed any more, even.
                Ok(Verdict::Known) | Err(Refusal::Trimmed { .. }) => {}
                Err(refusal) => return ControlFlow::Break(refusal),
            }
            ControlFlow::Continue(())
        });
        match stopped {
            ControlFlow::Break(refusal) => Err(refusal),
            ControlFlow::Continue(()) => Ok(taken),
        }
    }

    /// Its client is gone, or has joined again, and does not write there any more.
    pub(super) fn end(&mut self) {
        if self.stage == Stage::Waits {
            self.stage = Stage::Ended;
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stage != Stage::Waits
    }

    /// One step towards its removal, if its client does not write there any more; returns
    /// whether it is to be removed now.
    pub(super) fn sweep(&mut self, logbook: &mut Logbook) -> Result<bool, Refusal> {
        if self.stage == Stage::Ended {
            self.stage = match self.salvage(logbook) {
                // Late writes of a fenced life: they go with the ring. FENCE-1
                Ok(_) | Err(Refusal::Stale { .. }) => Stage::Drained(logbook.ticket()),
                Err(refusal) if refusal.is_temporary() => return Ok(false),
                Err(refusal) => Stage::Refused(logbook.ticket(), refusal),
            };
        }
        match &self.stage {
            Stage::Drained(ticket) => Ok(logbook.has_stored(*ticket)),
            Stage::Refused(ticket, refusal) if logbook.has_stored(*ticket) => Err(refusal.clone()),
            Stage::Waits | Stage::Ended | Stage::Refused(..) => Ok(false),
        }
    }
}
