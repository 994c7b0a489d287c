//! What collectives need of the engine whose results are kept instead of their messages. WHOLE-1 to
//! WHOLE-5, docs/design/whole-collectives.md
//!
//! Results that this rank keeps are messages in its log to itself, which has no reader: so they are
//! spilled to disk, belong to checkpoints and are freed as all messages are. A result that another
//! rank asks for is sent to it in parts, each in one record, on a stream that numbers nothing: a part
//! that comes twice, or from a dead rank's log, is as good as the first.

use super::buffer::{ReceiveBuffer, SendBuffer};
use super::carrying::CARRIER_CONTEXT;
use super::inbox::Delivery;
use super::lane::Lane;
use super::request::{RequestId, RequestKind, RequestState};
use super::{Engine, EngineError, InternalOperation, SendTo};
use crate::control::{Control, Report};
use crate::fabric::{Arrival, Disposition, Payload};
use crate::matching::Envelope;
use crate::protocol::Protocol;
use refrain_ring::{ChannelLog, Rank, RecordKind, Ssn, Stream};

/// A part of a result that another rank has given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPart {
    /// The rank.
    pub source: Rank,
    /// Which result it is.
    pub name: ResultName,
    /// Where the part begins in the result, in bytes.
    pub offset: u64,
    /// Bytes of the result.
    pub result_bytes: u64,
    /// The bytes.
    pub data: Box<[u8]>,
}

/// Which result of a collective is given; ranks give the numbers their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultName {
    /// The context of the group.
    pub context: u32,
    /// Whose result it is: a tag.
    pub owner: i32,
    /// The collective in the group.
    pub collective: u64,
}

impl ResultName {
    /// Bytes before those of a result in the log of the rank that keeps it: the collective. The header
    /// has the rest.
    pub const BYTES: usize = 8;

    /// The name and the result that a message of [`Stream::RESULTS`] holds in the log of a rank to
    /// itself.
    pub fn split(context: u32, tag: i32, message: &[u8]) -> Option<(Self, &[u8])> {
        let (head, result) = message.split_first_chunk()?;
        let name = Self {
            context,
            owner: tag,
            collective: u64::from_le_bytes(*head),
        };
        Some((name, result))
    }

    /// The payload of a record that gives the part of a result from `offset` on.
    pub fn part(self, result: &[u8], offset: usize, bytes_max: usize) -> Vec<u8> {
        let end = result.len().min(offset + bytes_max);
        let place = [offset, result.len()].map(|word| word as u64);
        let head = [self.collective, place[0], place[1]].map(u64::to_le_bytes);
        [head.as_flattened(), &result[offset..end]].concat()
    }
}

/// What an engine holds of collectives whose results are kept.
#[derive(Debug, Default)]
pub(super) struct WholeState {
    /// Reports that have arrived. WHOLE-3
    pub reports: Vec<(Rank, Report, u32, u64)>,
    /// Peers that were connected, if they or this rank are later lives. WHOLE-3
    pub connected_again: Vec<Rank>,
    /// Whether a part of a result is kept, and the rest is not.
    is_in_part: bool,
}

/// Bytes before those of the result in a part: its name, offset and length.
const PART_HEAD_BYTES: usize = ResultName::BYTES + 16;
/// Most bytes of a result in one part.
const PART_BYTES_MAX: usize = 16 << 10;

impl<P: Protocol> Delivery<'_, P> {
    /// Takes in a part of a result. It is not counted: it belongs to no execution. WHOLE-2
    #[cold]
    pub(super) fn take_result(&mut self, arrival: &Arrival<'_>) -> Disposition {
        let header = arrival.header;
        if header.context == CARRIER_CONTEXT {
            return self.take_carrier(arrival);
        }
        if let Payload::Here(payload) = arrival.payload
            && let Some((name, rest)) = ResultName::split(header.context, header.tag, payload)
            && let Some((place, data)) = rest.split_first_chunk::<16>()
        {
            let word =
                |at: usize| u64::from_le_bytes(core::array::from_fn(|byte| place[at + byte]));
            self.inbox.results.push(ResultPart {
                source: header.source,
                name,
                offset: word(0),
                result_bytes: word(8),
                data: data.into(),
            });
        }
        Disposition::Consumed
    }
}

impl<P: Protocol> Engine<P> {
    /// Allows to free messages of collectives before their receivers' checkpoints cover them, and
    /// later lives to leave them out, on every rank of a job. WHOLE-4
    pub fn keep_results(&mut self) {
        self.outbox.frees_closed = true;
        self.inbox.sources.change(|begin| begin.skips = true);
        for source in self.inbox.sources.iter_mut() {
            source.skips = true;
        }
    }

    /// Notes that an operation sends a message, where messages may be left out.
    #[inline]
    pub(super) fn note_operation(&mut self, operation: &InternalOperation, to: Rank) {
        if self.outbox.frees_closed {
            let destination = &mut self.outbox.destinations[to.index()];
            destination.note_operation(operation.stream(), operation.begun_at());
        }
    }

    /// Whether results are kept.
    pub fn keeps_results(&self) -> bool {
        self.outbox.frees_closed
    }

    /// Writes a result of a collective into the log of this rank to itself, as far as there is room.
    /// `kept_bytes`: how much was written so far; `None` at first. Returns its SSN once it is
    /// kept. LOG-3, WHOLE-2
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn keep_result(
        &mut self,
        name: ResultName,
        result: &SendBuffer,
        kept_bytes: &mut Option<u64>,
    ) -> Result<Option<Ssn>, EngineError> {
        let own = self.options.rank;
        let ssn = self.outbox.destination(own).next.of(Stream::RESULTS);
        // The records of one result stand together.
        if kept_bytes.is_none() && self.whole.is_in_part {
            return Ok(None);
        }
        let to = SendTo {
            rank: own,
            context: name.context,
            tag: name.owner,
            synchronous: false,
        };
        let head = name.collective.to_le_bytes();
        let bytes = head.len() as u64 + result.message_bytes();
        let (outbox, mut means) = self.sending();
        outbox.stall = None;
        while kept_bytes.is_none_or(|kept| kept < bytes) {
            let destination = &mut outbox.destinations[own.index()];
            let offset = kept_bytes.unwrap_or(0);
            let header = match kept_bytes {
                None => to.header(RecordKind::Eager, ssn, bytes),
                Some(_) => to.header(RecordKind::Fragment, ssn, offset),
            };
            let rest = (bytes - offset).min(ChannelLog::PAYLOAD_BYTES_MAX as u64) as usize;
            if !destination.log.has_room(rest) {
                destination.before_chunk(&mut means.log);
            }
            let target = destination.limits.target;
            // The first record has the name, and a part of the result.
            let fill = |place: &mut [u8]| match offset {
                0 => {
                    let (name, begin) = place.split_at_mut(head.len());
                    name.copy_from_slice(&head);
                    result.pack(0, begin, target);
                }
                _ => result.pack(offset - head.len() as u64, place, target),
            };
            let arena = &mut *means.log.arena;
            match (destination.log).append(arena, rest, false, header, fill) {
                Ok(frame) => {
                    frame.publish(arena.region());
                    *kept_bytes = Some(offset + frame.payload_bytes() as u64);
                }
                Err(stop) => {
                    if !outbox.makes_room(own, stop, &mut means)? {
                        self.whole.is_in_part = kept_bytes.is_some();
                        return Ok(None);
                    }
                }
            }
        }
        self.whole.is_in_part = false;
        Ok(Some(self.next_ssn(own, Stream::RESULTS)))
    }

    /// The result of which a part is kept stays incomplete, since its collective is given up. No index of
    /// results has its SSN.
    pub fn leave_result_incomplete(&mut self) {
        self.whole.is_in_part = false;
        self.next_ssn(self.options.rank, Stream::RESULTS);
    }

    /// Frees the results below `ssn`. WHOLE-4
    pub fn free_results(&mut self, ssn: Ssn) {
        let own = self.options.rank;
        let (outbox, mut means) = self.sending();
        outbox.horizon(own, ssn, &mut means);
    }

    /// Frees the messages of closed collectives: those to `to` below `ssn` in its stream, at the
    /// latest when memory is needed. WHOLE-4
    pub fn free_internal(&mut self, to: Rank, ssn: Ssn) {
        self.outbox.destinations[to.index()].horizon.raise_to(ssn);
    }

    /// Whether a checkpoint of `to` covers the messages to it below `ssn`, or they are freed.
    pub fn is_freed(&self, to: Rank, ssn: Ssn) -> bool {
        ssn <= self.outbox.destination(to).horizon.of(ssn.stream())
    }

    /// Sends the part of a result from `offset` on to a rank that asks for it, if that rank can take
    /// it now; returns the bytes of the part. WHOLE-2
    ///
    /// # Errors
    /// When the log is broken.
    pub fn give_result(
        &mut self,
        to: Rank,
        name: ResultName,
        result: &[u8],
        offset: usize,
    ) -> Result<Option<usize>, EngineError> {
        let destination = &mut self.outbox.destinations[to.index()];
        // A lane that suppresses messages becomes live with the part: its peer has the messages that
        // come too early, and may not go on without the result.
        let takes_parts = matches!(destination.lane, Lane::Live | Lane::Suppressing(_));
        if !takes_parts || !destination.queue.is_empty() {
            return Ok(None);
        }
        let attached = self.fabric.attributes_to(to).attached_bytes_max;
        let at_once = destination.limits.at_once_bytes_max as usize;
        let longest = attached.min(at_once).min(PART_BYTES_MAX) - PART_HEAD_BYTES;
        let payload = name.part(result, offset, longest);
        let ssn = Ssn(Ssn::first(Stream::RESULTS).0 + self.outbox.unnumbered);
        let send_to = SendTo {
            rank: to,
            context: name.context,
            tag: name.owner,
            synchronous: false,
        };
        let bytes = payload.len();
        let header = send_to.header(RecordKind::Eager, ssn, bytes as u64);
        let (outbox, mut means) = self.sending();
        let destination = &mut outbox.destinations[to.index()];
        if !destination.log.has_room(bytes) {
            destination.before_chunk(&mut means.log);
        }
        let fill = |place: &mut [u8]| place.copy_from_slice(&payload);
        match (destination.log).append(means.log.arena, bytes, true, header, fill) {
            Ok(frame) => destination.packed.push_back((frame, means.log.gate.mark())),
            Err(stop) => {
                outbox.makes_room(to, stop, &mut means)?;
                return Ok(None);
            }
        }
        // No checkpoint covers it.
        destination.horizon.raise_to(ssn.next());
        destination.post_packed(to, &mut means);
        outbox.note_backlog(to);
        outbox.unnumbered += 1;
        Ok(Some(bytes - PART_HEAD_BYTES))
    }

    /// The parts of results that have arrived.
    pub fn results(&mut self) -> impl Iterator<Item = ResultPart> {
        self.inbox.results.drain(..)
    }

    /// Sends a report about a collective, behind all events so far. A rank that is not connected
    /// does not get it. WHOLE-3, GATE-1
    pub fn report(&mut self, to: Rank, report: Report, (context, name): (u32, u64)) {
        let control = Control::Collective {
            report,
            context,
            name,
        };
        self.outbox.push_control(to, control, self.gate.mark());
    }

    /// A report that has arrived: its sender, the context of the group and the collective.
    pub fn next_report(&mut self) -> Option<(Rank, Report, u32, u64)> {
        self.whole.reports.pop()
    }

    /// A peer that was connected, where it or this rank is a later life: reports before do not
    /// count for that life.
    pub fn next_connected_again(&mut self) -> Option<Rank> {
        self.whole.connected_again.pop()
    }

    /// Whether the executor of collectives has news: reports, peers or results.
    #[inline]
    pub fn has_collective_news(&self) -> bool {
        let (whole, results) = (&self.whole, &self.inbox.results);
        // One branch: `&`.
        !(whole.reports.is_empty() & whole.connected_again.is_empty() & results.is_empty())
    }

    /// The next message to `to` on the stream of an operation.
    pub fn next_of(&self, operation: &InternalOperation, to: Rank) -> Ssn {
        self.outbox.destination(to).next.of(operation.stream())
    }

    /// Whether payload is landing for a step: it cannot be given up before that has ended, or the peer
    /// is gone.
    pub fn is_landing(&self, id: RequestId) -> bool {
        let state = self.requests.get(id).map(|request| &request.state);
        matches!(state, Some(RequestState::Receiving(receiving)) if receiving.landings > 0)
    }

    /// Gives up a step of an operation whose result is there: a send continues from a copy, and a
    /// receive takes nothing. WHOLE-5
    pub fn drop_step(&mut self, id: RequestId) {
        if let Some(posted) = self.requests.receiving(id).and_then(|it| it.posted.take()) {
            self.inbox.internal.cancel(posted);
        }
        self.detach(id);
        if let Some(request) = self.requests.get(id)
            && matches!(request.state, RequestState::Receiving(_))
        {
            self.requests.remove(id);
        }
    }

    /// Leaves out the messages to `to` below `ssn`: every member has finished their collective.
    /// WHOLE-5
    pub fn skip_sends(&mut self, to: Rank, ssn: Ssn) {
        self.outbox.destinations[to.index()].next.raise_to(ssn);
    }

    /// Drops the internal messages that have arrived and that no step receives any more: those
    /// whose envelope `is_over`, unless their payload is landing. WHOLE-5
    pub fn drop_arrived(&mut self, is_over: impl Fn(&Envelope) -> bool) {
        let ranks = (0..self.options.size).map(Rank);
        let internal = &self.inbox.internal;
        let waiting = ranks.flat_map(|source| internal.unexpected_of(source));
        let over: Vec<_> = waiting
            .filter(|(_, envelope, _)| is_over(envelope))
            .map(|(id, _, index)| (id, *index))
            .collect();
        for (waiting, index) in over {
            if self.inbox.messages[index].is_landing() {
                continue;
            }
            let Some((envelope, index)) = self.inbox.internal.remove_unexpected(waiting) else {
                continue;
            };
            let ssn = self.inbox.messages[index].head.ssn;
            let (kind, room) = (RequestKind::Step, ReceiveBuffer::nowhere());
            let id = self.add_receiving(self.clock, kind, room, false, false);
            self.deliver(index, id);
            self.drop_step(id);
            let source = &mut self.inbox.sources[envelope.source.index()];
            source.assembling.retain(|(it, _)| *it != ssn);
            source.missing.remove(&ssn);
        }
    }
}
