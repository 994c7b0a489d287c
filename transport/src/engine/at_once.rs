//! Messages that leave in the call that sends them: whole, in one record.

use super::buffer::Data;
use super::destination::{ToPack, fill};
use super::outbox::LogMeans;
use super::request::Sending;
use super::{Engine, EngineError, SendBuffer, SendTo, Started};
use crate::gate::{Mark, Pass};
use crate::protocol::Protocol;
use refrain_ring::copy::STREAM_BYTES_MIN;
use refrain_ring::{Clock, RecordHeader, RecordKind, Stream};

impl<P: Protocol> Engine<P> {
    /// Sends a message that fits one record to a destination where nothing waits: the common case.
    /// `mark`: what it waits for if the fabric does not take it now; `attachment`: what the record holds behind
    /// the message. CAUSAL-1
    // `CARRIES`: there is an attachment. So each of the two has code of its own, and that without is short.
    #[inline(always)]
    pub(super) fn send_at_once<const CARRIES: bool, D: Data>(
        &mut self,
        (pass, mark): (Pass, Mark),
        attachment: &[u8],
        (stream, clock): (Stream, Clock),
        buffer: D,
        to: SendTo,
    ) -> Result<Started, EngineError> {
        let bytes = buffer.message_bytes();
        let attachment = if CARRIES { attachment } else { &[] };
        let log = &mut LogMeans {
            fabric: &mut *self.fabric,
            arena: &mut self.arena,
            shared: &mut self.shared,
            gate: &self.gate,
            spilling: &mut self.spilling,
        };
        let destination = &mut self.outbox.destinations[to.rank.index()];
        let ssn = destination.next.of(stream);
        let mut header = to.header(RecordKind::Eager, ssn, bytes);
        header.flags |= destination.first_flag(ssn);
        if !attachment.is_empty() {
            header.flags |= RecordHeader::ATTACHED;
        }
        let record_bytes = bytes as usize + attachment.len();
        let is_staged = destination.limits.stages(record_bytes)
            && buffer.made().is_some_and(|buffer| {
                let to_pack = ToPack::whole(buffer, header, attachment);
                destination.stage(&to_pack, mark, log).is_some()
            });
        if is_staged {
            destination.next.take_next(stream);
        } else {
            if !destination.log.has_room(record_bytes) {
                destination.before_chunk(log);
            }
            let target = destination.limits.target;
            // LOG-1: this is the log's copy and the network's at once.
            let fill = |place: &mut [u8]| fill(place, (&buffer, 0), attachment, target);
            let appended = (destination.log).append(log.arena, record_bytes, true, header, fill);
            let Ok(frame) = appended else {
                return self.send_in_turn(stream, clock, buffer.into(), to, None);
            };
            destination.next.take_next(stream);
            if log.fabric.post(pass, to.rank, &frame).is_err() {
                destination.packed.push_back((frame, mark));
                self.outbox.note_backlog(to.rank);
            } else if record_bytes < STREAM_BYTES_MIN {
                destination.log.clear_ahead(log.arena);
            }
        }
        if !attachment.is_empty() {
            self.outbox.destinations[to.rank.index()].carried(&mut self.protocol);
        }
        if !to.synchronous {
            return Ok(Started::Done(to.outcome(bytes)));
        }
        let sending = Sending {
            packed_bytes: bytes,
            announced: true,
            ..Sending::new(buffer.into(), to, ssn)
        };
        let id = self.requests.add_send(clock, sending);
        let destination = &mut self.outbox.destinations[to.rank.index()];
        destination.unanswered.push((ssn, id));
        Ok(Started::Pending(id))
    }

    /// As [`Engine::send_at_once`], of a length that the fabric takes before the log.
    #[inline(never)]
    pub(super) fn send_staged(
        &mut self,
        gate: (Pass, Mark),
        (stream, clock): (Stream, Clock),
        buffer: SendBuffer,
        to: SendTo,
    ) -> Result<Started, EngineError> {
        self.send_at_once::<false, _>(gate, &[], (stream, clock), buffer, to)
    }

    /// As [`Engine::send_at_once`], with the events that are not stable in the record. CAUSAL-1
    #[inline(never)]
    pub(super) fn send_attached(
        &mut self,
        (stream, clock): (Stream, Clock),
        buffer: SendBuffer,
        to: SendTo,
    ) -> Result<Started, EngineError> {
        // The memory is reused.
        let mut attachment = core::mem::take(&mut self.outbox.attachment);
        attachment.clear();
        let destination = &mut self.outbox.destinations[to.rank.index()];
        let bytes = buffer.message_bytes() as usize;
        let may_leave = self.protocol.may_carry(to.rank);
        let is_all = may_leave && destination.attach(bytes, &mut self.protocol, &mut attachment);
        let started = match is_all {
            true => {
                let gate = (self.gate.pass_with_events(), self.gate.preceded());
                self.send_at_once::<true, _>(gate, &attachment, (stream, clock), buffer, to)
            }
            false => self.send_in_turn(stream, clock, buffer, to, None),
        };
        self.outbox.attachment = attachment;
        self.protocol_worked = true;
        started
    }
}
