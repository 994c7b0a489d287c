//! The ring of a connected writer, and its end after the connection.

use super::ring_name::RingName;
use crate::logbook::{Logbook, Refusal, Ticket, Verdict};
use crate::message::ToClient;
use crate::ring::{
    Cursor, DATA_BYTES, LINE_BYTES, RingIdentity, RingMemory, RingReader, RingRemains,
};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BATCH_BYTES_MAX;
use refrain_ring::Clock;
use std::collections::VecDeque;

/// A client that cannot see the free room gets a message each time this much is freed.
const ROOM_TOLD_BYTES: u64 = DATA_BYTES as u64 / 4;
/// Maximum number of batches taken from one ring before the next has its turn.
const BATCHES_PER_TURN: usize = DATA_BYTES / LINE_BYTES / 4;

/// An end of a log, and its clock.
pub(super) type Place = (EventIndex, Clock);

#[derive(Debug)]
pub(super) struct ServedRing {
    reader: RingReader,
    /// Ends of the log, and the position to which the ring was drained at each.
    marks: VecDeque<(EventIndex, Cursor)>,
    durable_told: EventIndex,
    /// The client writes by RMA, and gets messages instead of reading the control page.
    is_remote: bool,
    /// Last free position sent to the client.
    room_told: Cursor,
}

impl ServedRing {
    /// `stable`: the durable end of the client's own log.
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

    /// Takes the batches in the ring into the logbook; returns the end of the last one. `room`: a
    /// buffer for one batch.
    pub(super) fn drain(
        &mut self,
        logbook: &mut Logbook,
        room: &mut [u8; BATCH_BYTES_MAX],
    ) -> Result<Option<Place>, Refusal> {
        let mut last = None;
        let job = self.reader.identity().job;
        for _ in 0..BATCHES_PER_TURN {
            if !has_room(logbook) {
                break;
            }
            let Some((header, batch)) = self.reader.take(room) else {
                break;
            };
            logbook.accept_checked(job, &header, batch)?;
            last = Some((header.end(), header.last_clock));
        }
        if let Some((end, _)) = last {
            self.marks.push_back((end, self.reader.position()));
        }
        Ok(last)
    }

    /// Frees the room of written batches. EL-3. Sometimes returns a message for a client that
    /// cannot see the free room: rarely, and before the client runs out of room.
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

    /// Closes the ring: its client must join again, or is gone.
    pub(super) fn close(self) -> OldRing {
        OldRing::new(self.reader.into_remains())
    }
}

/// Whether one more batch will certainly be accepted.
pub(super) fn has_room(logbook: &Logbook) -> bool {
    logbook.unwritten_bytes() < Logbook::UNWRITTEN_BYTES_MAX / 2
}

/// Stages of an old ring.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// The client may not have noticed yet, and may still write there.
    Waits,
    /// No client writes there any more: the ring must be read one last time.
    Ended,
    /// The ring was read for the last time; it is removed once the store has this.
    Drained(Ticket),
    /// The ring is damaged from some position on; batches before it must be stored
    /// first.
    Refused(Ticket, Refusal),
}

/// A ring whose client must join again, or is gone. Batches that the client places
/// there before it notices count. So the ring is read once more when the client no longer
/// writes there, and only then removed. EL-3
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

    /// Takes the batches that the logbook lacks; returns their number. Batches that a
    /// fenced life placed too late are refused. EL-3, FENCE-1
    pub(super) fn salvage(&self, logbook: &mut Logbook) -> Result<usize, Refusal> {
        let job = self.identity().job;
        let mut taken = 0;
        self.remains
            .each(|_, batch| match logbook.accept(job, batch) {
                Ok(Verdict::Taken) => {
                    taken += 1;
                    Ok(())
                }
                // Stored before, and perhaps trimmed since.
                Ok(Verdict::Known) | Err(Refusal::Trimmed { .. }) => Ok(()),
                Err(refusal) => Err(refusal),
            })?;
        Ok(taken)
    }

    /// The client is gone, or has joined again, and no longer writes there.
    pub(super) fn end(&mut self) {
        if self.stage == Stage::Waits {
            self.stage = Stage::Ended;
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stage != Stage::Waits
    }

    /// One step towards removal, if the client no longer writes there; returns
    /// whether the ring must be removed now.
    pub(super) fn sweep(&mut self, logbook: &mut Logbook) -> Result<bool, Refusal> {
        if self.stage == Stage::Ended {
            self.stage = match self.salvage(logbook) {
                // Late writes of a fenced life are dropped with the ring. FENCE-1
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
