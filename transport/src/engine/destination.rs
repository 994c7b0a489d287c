//! The sending side of one peer: its log, the sends that wait, and the lengths at which messages
//! are cut.
//!
//! A log that keeps its payload is written to memory that no cache holds: that takes longer than a
//! network takes to begin. Where a fabric copies for sending anyway, the engine packs the message
//! into the fabric's memory first, and writes the log's copy while the message travels: the message
//! is *staged*. LOG-1: it is in the log before the send completes.

use super::SendTo;
use super::buffer::{Data, SendBuffer};
use super::lane::Lane;
use super::outbox::{LogMeans, Means};
use super::per_rank::Begin;
use super::request::{RequestId, Sending};
use crate::fabric::{Attributes, Fabric, Refusal};
use crate::gate::Mark;
use core::ops::Range;
use refrain_ring::copy::Target;
use refrain_ring::resend::Resend;
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Clock, Frame, Frontier, Incarnation, Position, Rank,
    RecordHeader, RecordKind, ReserveError, Ssn, Stream, record_bytes,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The sending side of one peer.
#[derive(Debug)]
pub(super) struct Destination {
    pub rank: Rank,
    /// The life of the peer to which the lane leads, or led last.
    pub life: Incarnation,
    pub log: ChannelLog,
    pub limits: Limits,
    /// Whether the peer is in the set of this rank. SET-1
    pub is_member: bool,
    /// Whether its messages are kept until the lane is live, though the rank keeps no others. LOG-7
    pub keeps_until_live: bool,
    pub lane: Lane,
    /// Position in the log before which a live lane never reads.
    pub lane_begins: Position,
    /// The read-back from which the lane was caught up. Its memory is freed when the peer has
    /// released it.
    pub recalled: Option<Resend>,
    /// The SSN of the next message, in each stream. STREAM-1
    pub next: Frontier,
    /// Of each stream, the operation that has sent last, by the clock at which it began, and its first
    /// message; empty unless messages may be left out. WHOLE-5
    pub operations: BTreeMap<Stream, (Clock, Ssn)>,
    /// Rendezvous sends that are cleared to send; they go first.
    pub cleared: VecDeque<RequestId>,
    /// Sends that are not completely packed, in the order of their SSNs.
    pub queue: VecDeque<RequestId>,
    /// Sends that wait for an answer of the receiver.
    pub unanswered: Vec<(Ssn, RequestId)>,
    /// Packed frames that wait for the gate or the fabric.
    pub packed: VecDeque<(Frame, Mark)>,
    /// All messages below it are in a stable checkpoint of the receiver. LOG-4
    pub horizon: Frontier,
    /// The first message in this life's log, in each stream. Earlier ones were freed before the
    /// checkpoint was taken.
    pub begins: Frontier,
    /// One past the last message that a checkpoint put into the log, in each stream.
    pub logged_until: Frontier,
    /// The first messages that a later life sends, until the peer has reported which ones it has.
    pub sends_from: Option<Frontier>,
    /// One past the chunk of the last record with events. CAUSAL-4
    pub carried_in: u64,
    /// End of the log at the last look for idle channels.
    pub tail_seen: Position,
}

/// How the sending side of a peer begins.
#[derive(Debug)]
pub(super) struct NewDestination {
    /// This rank.
    pub rank: Rank,
    pub incarnation: Incarnation,
    pub window_bytes: u64,
    pub sides: Arc<Sides>,
    /// By side.
    pub limits: Vec<Limits>,
    /// Whether peers have to be introduced first.
    pub meets_later: bool,
}

/// The peers towards which a fabric has the same attributes.
#[derive(Debug, Default)]
pub(super) struct Sides {
    /// By rank; empty if there is one side.
    of_rank: Vec<u8>,
}

impl Sides {
    /// The sides of a fabric, and the attributes of each.
    pub fn of<'a>(
        size: u32,
        own: Rank,
        attributes_to: impl Fn(Rank) -> &'a Attributes,
    ) -> (Self, Vec<&'a Attributes>) {
        let mut all: Vec<&Attributes> = Vec::new();
        let mut of_rank = vec![0; size as usize];
        for peer in (0..size).map(Rank).filter(|peer| *peer != own) {
            let attributes = attributes_to(peer);
            let known = all.iter().position(|it| core::ptr::eq(*it, attributes));
            let side = known.unwrap_or(all.len());
            if side == all.len() {
                all.push(attributes);
            }
            of_rank[peer.index()] = side as u8;
        }
        if all.len() <= 1 {
            of_rank = Vec::new();
        }
        (Self { of_rank }, all)
    }

    pub fn side_of(&self, rank: Rank) -> usize {
        self.of_rank.get(rank.index()).copied().unwrap_or(0).into()
    }
}

impl Begin for NewDestination {
    type State = Destination;

    fn begin(&self, to: Rank) -> Destination {
        let is_first = self.incarnation == Incarnation(0);
        Destination {
            rank: to,
            life: Incarnation(0),
            log: ChannelLog::new(self.rank, self.incarnation, to, self.window_bytes),
            limits: self.limits[self.sides.side_of(to)].clone(),
            is_member: false,
            keeps_until_live: false,
            lane: match self.meets_later {
                // A rank's log to itself has no reader.
                _ if to == self.rank => Lane::Down,
                true => Lane::Unmet { is_wanted: false },
                false if is_first => Lane::Live,
                false => Lane::Down,
            },
            lane_begins: Position(0),
            recalled: None,
            next: Frontier::default(),
            operations: BTreeMap::new(),
            cleared: VecDeque::new(),
            queue: VecDeque::new(),
            unanswered: Vec::new(),
            packed: VecDeque::new(),
            horizon: Frontier::default(),
            begins: Frontier::default(),
            logged_until: Frontier::default(),
            sends_from: (!is_first).then(Frontier::default),
            carried_in: 0,
            tail_seen: Position(0),
        }
    }
}

/// Upper bound of the bytes at the end of a chunk that are too few for a fragment. It is not part
/// of the format.
const CHUNK_END_BYTES: u64 = 2048;

/// The lengths at which messages to one peer are cut.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub fragment_bytes: u64,
    /// Longer messages are announced, and sent after clear-to-send.
    pub eager_bytes_max: u64,
    /// Longer messages take more than one record.
    pub at_once_bytes_max: u64,
    /// Longer messages would wait for ever: a log keeps the beginning of a message until its end is
    /// received.
    pub message_bytes_max: u64,
    /// Whether the log keeps its payload.
    pub keeps_payload: bool,
    /// How records are written. Records that are kept bypass the cache if a device or a disk reads
    /// them; a peer that reads them in shared memory gets them from the cache.
    pub target: Target,
    /// Lengths of messages that leave before they are in the log; empty if the log keeps no
    /// payload.
    pub staged_bytes: Range<u64>,
    /// Whether records may refer to shared payload.
    pub follows_references: bool,
    /// Longest payload of a record with events: they arrive with the frame. CAUSAL-2
    pub carrying_bytes_max: usize,
}

/// A part of a message for one record.
pub(super) struct ToPack<'a> {
    pub buffer: &'a SendBuffer,
    /// Where the part begins in the message.
    pub offset: u64,
    /// Its longest length.
    pub bytes_max: usize,
    /// Whether it may not be shorter.
    pub whole: bool,
    pub header: RecordHeader,
    /// What the record holds behind the message. Then the part is the whole message.
    pub attachment: &'a [u8],
}

impl<'a> ToPack<'a> {
    /// A whole message, and what is behind it.
    pub fn whole(buffer: &'a SendBuffer, header: RecordHeader, attachment: &'a [u8]) -> Self {
        let attached = match attachment {
            [] => 0,
            _ => RecordHeader::ATTACHED,
        };
        Self {
            buffer,
            offset: 0,
            bytes_max: buffer.message_bytes() as usize,
            whole: true,
            header: RecordHeader {
                flags: header.flags | attached,
                ..header
            },
            attachment,
        }
    }

    /// Longest payload of the record.
    #[inline(always)]
    pub fn record_bytes(&self) -> usize {
        self.bytes_max + self.attachment.len()
    }

    /// Writes the payload of the record.
    pub fn fill(&self, place: &mut [u8], target: Target) {
        fill(place, (self.buffer, self.offset), self.attachment, target);
    }
}

/// Writes the payload of a record: a part of a message from an offset on, and what is behind it.
#[inline(always)]
pub(super) fn fill(
    place: &mut [u8],
    (buffer, offset): (&impl Data, u64),
    attachment: &[u8],
    target: Target,
) {
    let (message, behind) = place.split_at_mut(place.len() - attachment.len());
    buffer.pack(offset, message, target);
    match (attachment, behind) {
        // The common cases, without a function call.
        ([], _) => {}
        ([byte], [place]) => *place = *byte,
        (_, behind) => behind.copy_from_slice(attachment),
    }
}

impl Limits {
    /// `kept_bytes`: capacity of the channel's log, if payload is kept.
    pub fn new(attributes: &Attributes, kept_bytes: Option<u64>) -> Self {
        let fragment_bytes = attributes
            .fragment_bytes
            .min(attributes.frame_payload_bytes_max);
        // A kept message must be in the log anyway: an announcement saves nothing.
        let eager_bytes_max = kept_bytes.map_or(attributes.eager_bytes_max, |_| u64::MAX);
        Self {
            fragment_bytes: fragment_bytes as u64,
            keeps_payload: kept_bytes.is_some(),
            target: match kept_bytes {
                Some(_) if !attributes.reads_in_place => Target::Streaming,
                _ => Target::Cached,
            },
            eager_bytes_max,
            follows_references: attributes.follows_references,
            carrying_bytes_max: (attributes.attached_bytes_max)
                .min(attributes.frame_payload_bytes_max)
                .min(ChannelLog::PAYLOAD_BYTES_MAX),
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

impl Limits {
    /// Whether a record with a payload of this length leaves before it is in the log.
    #[inline(always)]
    pub fn stages(&self, payload_bytes: usize) -> bool {
        self.staged_bytes.contains(&(payload_bytes as u64))
    }
}

/// The longest message that a kept log takes, whatever else the channel sends: earlier messages may
/// fill its first chunk.
fn kept_message_bytes_max(log_bytes: u64, fragment_bytes: usize) -> u64 {
    let chunks = log_bytes / CHUNK_BYTES as u64;
    let fragments = (ChannelLog::PAYLOAD_BYTES_MAX / record_bytes(fragment_bytes)) as u64;
    let headers = (fragments + 1) * (record_bytes(fragment_bytes) - fragment_bytes) as u64;
    let payload = ChannelLog::PAYLOAD_BYTES_MAX as u64 - headers - CHUNK_END_BYTES;
    chunks.saturating_sub(1) * payload
}

impl SendTo {
    /// The header of a record of the message `ssn`. The log fills in the sender's identity and the
    /// length of the payload.
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
    /// Notes that the next message of a stream belongs to the operation that began at this clock.
    #[cold]
    pub fn note_operation(&mut self, stream: Stream, begun_at: Clock) {
        let next = self.next.of(stream);
        let operation = self.operations.entry(stream).or_insert((begun_at, next));
        if operation.0 != begun_at {
            *operation = (begun_at, next);
        }
    }

    /// [`RecordHeader::FIRST`] if this is the first message of its operation.
    #[inline]
    pub fn first_flag(&self, ssn: Ssn) -> u16 {
        match self.operations.is_empty() {
            true => 0,
            false => self.first_flag_of(ssn),
        }
    }

    #[cold]
    fn first_flag_of(&self, ssn: Ssn) -> u16 {
        let operation = self.operations.get(&ssn.stream());
        match operation.is_some_and(|(_, first)| *first == ssn) {
            true => RecordHeader::FIRST,
            false => 0,
        }
    }

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

    /// Called before a chunk is taken. It frees chunks: the one freed last is still in the cache.
    #[cold]
    pub fn before_chunk(&mut self, means: &mut LogMeans<'_>) {
        means.spilling.before_chunk(self, means.arena);
        self.trim(means.fabric, means.arena);
    }

    /// Whether the log keeps its payload now. That to a member of the set does while the member
    /// catches up with what a checkpoint has put into the log. SET-3 That to a peer which is met when
    /// the rank has stopped keeping messages does until the peer is connected. LOG-7
    pub fn keeps_payload(&self) -> bool {
        self.limits.keeps_payload
            || (self.is_member || self.keeps_until_live) && !self.lane.is_live()
    }

    /// Everything before this position is posted, so its records are published.
    pub fn posted(&self) -> Position {
        let waiting = self.packed.front();
        waiting.map_or(self.log.tail(), |(frame, _)| frame.position)
    }

    pub fn trim(&mut self, fabric: &mut dyn Fabric, arena: &mut Arena) {
        let released = self.released(self.rank, fabric);
        if self.keeps_payload() {
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
                // Both end by progress: the fabric gets room, or the peer is connected again.
                Err(Refusal::Busy | Refusal::NotConnected(_)) => return,
            };
        }
    }

    /// Adds a frame to the packed ones. It waits for what those before it wait for, too.
    pub fn push_packed(&mut self, frame: Frame, mark: Mark) {
        let before = self.packed.back().map_or(mark, |(_, before)| *before);
        self.packed.push_back((frame, mark.max(before)));
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

    /// Appends the next record of a message, with up to `bytes_max` bytes of it, and posts it or
    /// leaves it among the packed ones. Returns the bytes of the message in it. `attachment`: what the record
    /// holds behind the message, which is whole in it.
    pub fn pack(
        &mut self,
        sending: &Sending,
        bytes_max: usize,
        header: RecordHeader,
        attachment: &[u8],
        log: &mut LogMeans<'_>,
    ) -> Result<u64, ReserveError> {
        if let Some(bytes) = self.refer(sending, bytes_max, header, log)? {
            return Ok(bytes);
        }
        let to_pack = match attachment {
            [] => ToPack {
                buffer: &sending.buffer,
                offset: sending.packed_bytes,
                bytes_max,
                whole: bytes_max == 0,
                header,
                attachment,
            },
            _ => ToPack::whole(&sending.buffer, header, attachment),
        };
        let mark = sending.mark(log.gate);
        let record_bytes = to_pack.record_bytes();
        let is_staged = self.limits.stages(record_bytes);
        let staged = is_staged.then(|| self.stage(&to_pack, mark, log)).flatten();
        let frame = match staged {
            Some(frame) => frame,
            None => {
                if !self.log.has_room(record_bytes) {
                    self.before_chunk(log);
                }
                let target = self.limits.target;
                // LOG-1: this is the log's copy and the network's at once.
                let fill = |place: &mut [u8]| to_pack.fill(place, target);
                let (whole, header) = (to_pack.whole, to_pack.header);
                let frame = (self.log).append(log.arena, record_bytes, whole, header, fill)?;
                self.push_packed(frame, mark);
                frame
            }
        };
        Ok((frame.payload_bytes() - attachment.len()) as u64)
    }

    /// Sends a part of a message of a length that [leaves early](Limits::stages) before it is in the log, if
    /// the gate and the fabric take it now. If not, the call has no effect.
    pub fn stage(
        &mut self,
        to_pack: &ToPack<'_>,
        mark: Mark,
        means: &mut LogMeans<'_>,
    ) -> Option<Frame> {
        if !self.lane.is_live() || !self.packed.is_empty() {
            return None;
        }
        let least = self.limits.staged_bytes.start as usize;
        let pass = means.gate.pass_behind(mark)?;
        let record_bytes = to_pack.record_bytes();
        if !self.log.has_room(record_bytes) {
            self.before_chunk(means);
        }
        let (to, target) = (self.rank, self.limits.target);
        let fabric = &mut *means.fabric;
        let leave = |header: &RecordHeader, payload: &mut [u8]| {
            let mut fill = |place: &mut [u8]| to_pack.fill(place, Target::Cached);
            let is_taken =
                payload.len() >= least && fabric.stage(pass, to, header, &mut fill).is_ok();
            if is_taken {
                to_pack.fill(payload, target);
            }
            is_taken
        };
        // LOG-3: a record for which the log has no room does not leave.
        let (whole, header) = (to_pack.whole, to_pack.header);
        let appended = (self.log).append_if(means.arena, record_bytes, whole, header, leave);
        let frame = appended.ok()??;
        means.fabric.staged(to, &frame);
        Some(frame)
    }
}
