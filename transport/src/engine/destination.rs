//! The sending side of one peer: its log, the sends that wait, and how messages are cut.
//!
//! A log that keeps its payload moves on through memory that no cache holds:
//! writing there takes longer than a network takes to begin. Where a fabric sends
//! by copying anyway, it copies from memory of its own, and the log's copy is
//! made while the message travels: the message is *staged*. LOG-1: it is in the log
//! before the send completes.

use super::SendTo;
use super::buffer::SendBuffer;
use super::lane::Lane;
use super::outbox::{LogMeans, Means};
use super::request::RequestId;
use crate::fabric::{Attributes, Fabric, Refusal};
use crate::gate::Mark;
use core::ops::Range;
use refrain_ring::copy::Target;
use refrain_ring::resend::Resend;
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Frame, Frontier, Incarnation, Position, Rank, RecordHeader,
    RecordKind, Ssn, record_bytes,
};
use std::collections::VecDeque;

/// The sending side of one peer.
#[derive(Debug)]
pub(super) struct Destination {
    pub rank: Rank,
    pub log: ChannelLog,
    pub limits: Limits,
    pub lane: Lane,
    /// Of a live lane: it never reads the log before this position.
    pub lane_begins: Position,
    /// Gives the memory back from which the lane was caught up, when the peer has
    /// released it.
    pub recalled: Option<Resend>,
    /// Of each stream the number of the next message. STREAM-1
    pub next: Frontier,
    /// Rendezvous sends that are cleared to send; they go first.
    pub cleared: VecDeque<RequestId>,
    /// Sends in the order of their SSN that are not wholly packed.
    pub queue: VecDeque<RequestId>,
    /// Sends that wait for an answer of the receiver.
    pub unanswered: Vec<(Ssn, RequestId)>,
    /// Packed frames that wait for the gate or the fabric.
    pub packed: VecDeque<(Frame, Mark)>,
    /// All messages below are in a stable checkpoint of the receiver. LOG-4
    pub horizon: Frontier,
    /// The first message of this life's log: those before belong to a checkpoint,
    /// and had been freed.
    pub begins: Frontier,
    /// One past the last message that was put into it from a checkpoint.
    pub logged_until: Frontier,
    /// Where a later life begins to send, until the peer has said which messages it has.
    pub sends_from: Option<Frontier>,
}

/// Left at the end of a chunk as too short for a fragment: an upper bound, not
/// the format.
const CHUNK_END_BYTES: u64 = 2048;

/// How messages to one peer are cut.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub fragment_bytes: u64,
    /// Longer messages are announced, and sent when they are asked for.
    pub eager_bytes_max: u64,
    /// Longer messages take more than one record.
    pub at_once_bytes_max: u64,
    /// Longer messages would wait for ever: a log keeps the beginning of a
    /// message until its end was received.
    pub message_bytes_max: u64,
    /// The log keeps its payload.
    pub keeps_payload: bool,
    /// Frames that are kept go around the cache.
    pub target: Target,
    /// Messages that leave before they are in the log, if they are kept there.
    pub staged_bytes: Range<u64>,
}

impl Limits {
    /// `kept_bytes`: what the channel's log may hold, if payload is kept.
    pub fn new(attributes: &Attributes, kept_bytes: Option<u64>) -> Self {
        let fragment_bytes = attributes
            .fragment_bytes
            .min(attributes.frame_payload_bytes_max);
        // A kept message must be in the log anyway: nothing is won by asking.
        let eager_bytes_max = kept_bytes.map_or(attributes.eager_bytes_max, |_| u64::MAX);
        Self {
            fragment_bytes: fragment_bytes as u64,
            keeps_payload: kept_bytes.is_some(),
            target: match kept_bytes {
                Some(_) => Target::Streaming,
                None => Target::Cached,
            },
            eager_bytes_max,
            at_once_bytes_max: eager_bytes_max.min(fragment_bytes as u64),
            staged_bytes: if kept_bytes.is_some() {
                attributes.staged_bytes.start as u64..attributes.staged_bytes.end as u64
            } else {
                0..0
            },
            message_bytes_max: kept_bytes.map_or(u64::MAX, |log_bytes| {
                kept_message_bytes_max(log_bytes, fragment_bytes)
            }),
        }
    }
}

/// The longest message that a kept log surely takes, whatever else the channel
/// sends: its first chunk may be full of what lies before.
fn kept_message_bytes_max(log_bytes: u64, fragment_bytes: usize) -> u64 {
    let chunks = log_bytes / CHUNK_BYTES as u64;
    let fragments = (ChannelLog::PAYLOAD_BYTES_MAX / record_bytes(fragment_bytes)) as u64;
    let headers = (fragments + 1) * (record_bytes(fragment_bytes) - fragment_bytes) as u64;
    let payload = ChannelLog::PAYLOAD_BYTES_MAX as u64 - headers - CHUNK_END_BYTES;
    chunks.saturating_sub(1) * payload
}

impl SendTo {
    /// The header of a record of the message `ssn`. Its identity and the length of
    /// its payload come from the log.
    #[inline(always)]
    pub(super) fn header(&self, kind: RecordKind, ssn: Ssn, extent: u64) -> RecordHeader {
        let wants_ack = self.synchronous && kind != RecordKind::Fragment;
        RecordHeader {
            payload_bytes: 0,
            kind,
            flags: if wants_ack { RecordHeader::WANT_ACK } else { 0 },
            incarnation: Incarnation(0),
            source: Rank(0),
            ssn,
            context: self.context,
            tag: self.tag,
            extent,
        }
    }
}

impl Destination {
    /// Whether a new send would be first in line.
    #[inline]
    pub fn is_clear(&self) -> bool {
        // One branch: `&`.
        self.has_nothing_waiting() & self.lane.is_live()
    }

    #[inline]
    pub fn has_nothing_waiting(&self) -> bool {
        self.queue.is_empty() & self.packed.is_empty() & self.cleared.is_empty()
    }

    /// Whether nothing of a send is in progress, to a peer that is not connected.
    pub fn is_clear_of_sends(&self) -> bool {
        self.has_nothing_waiting() && matches!(self.lane, Lane::Down)
    }

    /// A chunk is about to be taken: those that are free come first, the one
    /// freed last is still in the cache.
    #[cold]
    pub fn before_chunk(&mut self, means: &mut LogMeans<'_>) {
        means.spilling.before_chunk(self, means.arena);
        self.trim(means.fabric, means.arena);
    }

    /// Everything before this position was posted, so its records are published.
    pub fn posted(&self) -> Position {
        let waiting = self.packed.front();
        waiting.map_or(self.log.tail(), |(frame, _)| frame.position)
    }

    pub fn trim(&mut self, fabric: &mut dyn Fabric, arena: &mut Arena) {
        let released = self.released(self.rank, fabric);
        if self.limits.keeps_payload {
            self.log.trim_below(arena, &self.horizon, released);
        } else {
            self.log.trim_released(arena, released);
        }
    }

    /// Posts packed frames in order as far as gate and fabric allow. GATE-1
    pub fn post_packed(&mut self, to: Rank, means: &mut Means<'_>) {
        if !self.lane.is_live() {
            self.publish_packed(&mut means.log);
            if !self.lane.is_live() {
                return;
            }
        }
        while let Some((frame, mark)) = self.packed.front() {
            let Some(pass) = means.log.gate.pass_behind(*mark) else {
                return;
            };
            match means.log.fabric.post(pass, to, frame) {
                Ok(()) => self.packed.pop_front(),
                // Both end by progress: room comes, or the peer is back.
                Err(Refusal::Busy | Refusal::NotConnected(_)) => return,
            };
        }
    }

    /// Removes the send that is first in line from its queue.
    pub fn step_down(&mut self, id: RequestId) {
        if self.cleared.front() == Some(&id) {
            self.cleared.pop_front();
        } else if self.queue.front() == Some(&id) {
            self.queue.pop_front();
        }
    }

    pub fn take_unanswered(&mut self, ssn: Ssn) -> Option<RequestId> {
        let at = self.unanswered.iter().position(|(of, _)| *of == ssn)?;
        Some(self.unanswered.swap_remove(at).1)
    }

    /// Sends up to `bytes_max` bytes of a message from `offset` on before they are in the
    /// log, if the fabric takes them now. If not, nothing has happened.
    pub fn stage(
        &mut self,
        buffer: &SendBuffer,
        offset: u64,
        bytes_max: usize,
        whole: bool,
        header: RecordHeader,
        means: &mut LogMeans<'_>,
    ) -> Option<Frame> {
        let lengths = &self.limits.staged_bytes;
        let is_staged = lengths.contains(&(bytes_max as u64));
        if !is_staged || !self.lane.is_live() || !self.packed.is_empty() {
            return None;
        }
        let least = lengths.start as usize;
        let pass = means.gate.pass()?;
        if !self.log.has_room(bytes_max) {
            self.before_chunk(means);
        }
        let (to, target) = (self.rank, self.limits.target);
        let fabric = &mut *means.fabric;
        let leave = |header: &RecordHeader, payload: &mut [u8]| {
            let mut fill = |place: &mut [u8]| buffer.pack(offset, place, Target::Cached);
            let is_taken =
                payload.len() >= least && fabric.stage(pass, to, header, &mut fill).is_ok();
            if is_taken {
                buffer.pack(offset, payload, target);
            }
            is_taken
        };
        // LOG-3: what the log has no room for does not leave.
        let appended = (self.log).append_if(means.arena, bytes_max, whole, header, leave);
        let frame = appended.ok()??;
        means.fabric.staged(to, &frame);
        Some(frame)
    }
}
