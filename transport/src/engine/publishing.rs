//! Messages that go to several ranks: their payload is written into the log memory once, and each
//! channel's log holds records that refer to it. LOG-6
//!
//! To everything else each of them is an ordinary send. Which records refer to shared payload
//! depends on the room, and nothing depends on it.

use super::buffer::SendBuffer;
use super::destination::Destination;
use super::lane::Lane;
use super::outbox::{LogMeans, Outbox};
use super::request::Sending;
use super::{Engine, EngineError, InternalOperation, SendTo, Started};
use crate::fabric::Fabric;
use crate::protocol::Protocol;
use core::cell::RefCell;
use core::fmt;
use refrain_ring::copy::Target;
use refrain_ring::{RecordHeader, Reference, Referred, ReserveError, SharedPayload};
use std::rc::Rc;

/// A message that goes to several ranks, for [`Engine::publish_internal`]: the parts of it that are
/// written, in ascending order.
#[derive(Clone)]
pub struct Publication(Rc<RefCell<Vec<Part>>>);

/// A part of a message in the shared payload.
#[derive(Clone, Copy)]
struct Part {
    /// Offset in the message.
    offset: u64,
    reference: Reference,
}

impl fmt::Debug for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Where payload lies does not change what happens.
        f.write_str("Publication")
    }
}

impl Part {
    fn end(&self) -> u64 {
        self.offset + u64::from(self.reference.bytes)
    }

    /// The part from `offset` on, `bytes_max` bytes at most.
    fn from(&self, offset: u64, bytes_max: usize) -> Reference {
        let mut rest = self.reference;
        rest.position.0 += offset - self.offset;
        rest.bytes = (self.end() - offset).min(bytes_max as u64) as u32;
        rest
    }
}

impl Publication {
    /// The payload of the message from `offset` on, `bytes_max` bytes at most: as it was written
    /// for another rank, or written now. `None` without room.
    fn part(
        &self,
        (offset, bytes_max): (u64, usize),
        buffer: &SendBuffer,
        target: Target,
        log: &mut LogMeans<'_>,
    ) -> Option<Reference> {
        let mut parts = self.0.borrow_mut();
        let next = parts.partition_point(|part| part.end() <= offset);
        let known = parts.get(next).filter(|part| part.offset <= offset);
        if let Some(part) = known.filter(|part| log.shared.has(&part.reference)) {
            return Some(part.from(offset, bytes_max));
        }
        let fill = |place: &mut [u8]| buffer.pack(offset, place, target);
        let reference = log.shared.put(log.arena, bytes_max, fill)?;
        let part = Part { offset, reference };
        // Earlier parts may have been freed, and later ones may begin in this one.
        let after = parts[next..].partition_point(|known| known.offset < part.end());
        parts.splice(next..next + after, [part]);
        Some(reference)
    }
}

impl Destination {
    /// Appends a record that refers to the next payload of a published message, and returns the
    /// length of that payload. `None`: the payload belongs into the record.
    pub fn refer(
        &mut self,
        sending: &Sending,
        bytes_max: usize,
        header: RecordHeader,
        log: &mut LogMeans<'_>,
    ) -> Result<Option<u64>, ReserveError> {
        let Some(publication) = &sending.publication else {
            return Ok(None);
        };
        if bytes_max == 0 {
            return Ok(None);
        }
        if !self.log.has_room(Reference::BYTES) {
            self.before_chunk(log);
        }
        let (part, target) = ((sending.packed_bytes, bytes_max), self.limits.target);
        let Some(reference) = publication.part(part, &sending.buffer, target, log) else {
            return Ok(None);
        };
        let header = RecordHeader {
            flags: header.flags | RecordHeader::REFERENCE,
            ..header
        };
        let fill = |place: &mut [u8]| place.copy_from_slice(&reference.encode());
        let frame = (self.log).append(log.arena, Reference::BYTES, true, header, fill)?;
        let until = self.log.tail();
        (log.shared).refer(&reference, self.rank, until, header.ssn);
        self.push_packed(frame, sending.mark(log.gate));
        Ok(Some(reference.bytes.into()))
    }

    /// Whether the receiver needs no record with these references: the lane does not read them
    /// again, and if payload is kept, a horizon has passed their messages. LOG-4, LOG-6
    fn is_done_with(&self, referred: &Referred, fabric: &mut dyn Fabric) -> bool {
        let read = match &self.lane {
            Lane::Live => fabric.released(self.rank).max(self.lane_begins),
            // Records that are recalled from disk refer to shared payload, too.
            Lane::CatchingUp(_) => fabric.released(self.rank),
            Lane::Unmet { .. } | Lane::Down | Lane::Awaiting(_) | Lane::Suppressing(_) => {
                self.log.tail()
            }
        };
        let is_read = referred.until <= read.min(self.posted());
        is_read && (!self.keeps_payload() || referred.ends.is_within(&self.horizon))
    }
}

impl Outbox {
    /// Frees shared payload that no channel needs. LOG-6
    pub fn trim_shared(&self, log: &mut LogMeans<'_>) {
        let fabric = &mut *log.fabric;
        (log.shared).trim(log.arena, |referred| {
            self.destination(referred.destination)
                .is_done_with(referred, fabric)
        });
    }
}

impl<P: Protocol> Engine<P> {
    /// Uses up to `bytes` of the log memory for payload that several channels share, of messages of
    /// at least `message_bytes_min` bytes. LOG-6
    #[must_use]
    pub fn with_shared_payload(mut self, bytes: u64, message_bytes_min: u64) -> Self {
        let (rank, incarnation) = (self.options.rank, self.options.incarnation);
        self.shared = SharedPayload::new(rank, incarnation, bytes);
        self.shared_bytes_min = match self.shared.is_on() {
            // A header claims no more bytes than its message has.
            true => message_bytes_min.max(Reference::BYTES as u64),
            false => u64::MAX,
        };
        self
    }

    /// For a message of this length that goes to several ranks, if its payload may be shared.
    pub fn publication(&self, bytes: u64) -> Option<Publication> {
        (bytes >= self.shared_bytes_min).then(|| Publication(Rc::default()))
    }

    /// As [`Engine::send_internal`], for a message that goes to several ranks: each send of it has
    /// the same bytes and the same [publication](Engine::publication), made for this message.
    ///
    /// # Errors
    /// As [`Engine::send_internal`].
    ///
    /// # Panics
    /// As [`Engine::send_internal`].
    pub fn publish_internal(
        &mut self,
        operation: &InternalOperation,
        publication: Option<&Publication>,
        mut buffer: SendBuffer,
        to: SendTo,
    ) -> Result<Started, EngineError> {
        let limits = &mut self.outbox.destinations[to.rank.index()].limits;
        let bytes = buffer.message_bytes();
        let is_on_way = to.rank != self.options.rank && bytes <= limits.message_bytes_max;
        let may_refer = limits.follows_references && is_on_way;
        let Some(publication) = publication.filter(|_| may_refer) else {
            return self.send_internal(operation, buffer, to);
        };
        if self.plays_again {
            self.send_again(operation.begun_at(), operation.stream(), &mut buffer, to)?;
        }
        if self.gate.is_closed() && !self.carries {
            self.advance_protocol(self.gate.mark());
        }
        self.statistics.messages_sent += 1;
        self.statistics.bytes_sent += bytes;
        self.note_operation(operation, to.rank);
        let (stream, clock) = (operation.stream(), operation.begun_at());
        // REC-8: other bytes are sent if an earlier life has sent others to this rank.
        let publication = (!buffer.is_owned()).then(|| publication.clone());
        self.send_in_turn(stream, clock, buffer, to, publication)
    }
}
