//! What leaves: packs messages into the channel logs and posts the frames.

use super::lane::Lane;
use super::limits::Limits;
use super::request::{RequestId, Requests, Way};
use super::spilling::Spilling;
use super::stalling::Stall;
use super::{EngineError, SendTo, Statistics, finish_send};
use crate::control::Control;
use crate::fabric::{Attributes, Fabric, Refusal};
use crate::gate::{Gate, Mark};
use refrain_ring::resend::Resend;
use refrain_ring::{
    Arena, ChannelLog, Frame, Incarnation, Position, Rank, RecordHeader, RecordKind, ReserveError,
    Ssn,
};
use std::collections::VecDeque;

/// Bytes packed for one peer before others, and arrivals, have their turn.
pub(super) const BURST_BYTES: u64 = 128 << 10;

/// The sending side of one peer.
#[derive(Debug)]
pub(super) struct Destination {
    pub rank: Rank,
    pub log: ChannelLog,
    pub limits: Limits,
    pub lane: Lane,
    /// Of a live lane: it never reads the log before here.
    pub lane_begins: Position,
    /// Gives the memory back from which the lane was caught up, when the peer has
    /// let go of it.
    pub recalled: Option<Resend>,
    pub next_ssn: Ssn,
    /// Rendezvous sends that are cleared to send; they go first.
    pub cleared: VecDeque<RequestId>,
    /// Sends in the order of their SSN that are not wholly packed.
    pub queue: VecDeque<RequestId>,
    /// Sends that wait for a word of the receiver.
    pub unanswered: Vec<(Ssn, RequestId)>,
    /// Packed frames that wait for the gate or the fabric.
    pub packed: VecDeque<(Frame, Mark)>,
    /// All messages below are in a stable checkpoint of the receiver. LOG-4
    pub horizon: Ssn,
    /// The first message of this life's log: those before belong to a checkpoint,
    /// and had been freed.
    pub begins: Ssn,
    /// One past the last message that was put into it from a checkpoint.
    pub logged_until: Ssn,
    /// Where a later life begins to send, until the peer has said what it has.
    pub sends_from: Option<Ssn>,
}

#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) destinations: Vec<Destination>,
    /// Peers for whom something waits, in any of the queues.
    backlog: Vec<Rank>,
    pub(super) controls: VecDeque<(Rank, Control, Mark)>,
    pub stall: Option<Stall>,
    /// A burst has ended before what waits: nobody announces that it goes on.
    is_mid_burst: bool,
}

/// What the outbox needs of the engine to send.
pub(super) struct Means<'a> {
    pub log: LogMeans<'a>,
    pub requests: &'a mut Requests,
    pub statistics: &'a mut Statistics,
}

impl Outbox {
    /// `kept_bytes`: how much there is in all, if payload is kept; `of`: what
    /// the fabric can do towards each rank.
    pub fn new<'a>(
        rank: Rank,
        incarnation: Incarnation,
        size: u32,
        window_bytes: u64,
        kept_bytes: Option<u64>,
        of: impl Fn(Rank) -> &'a Attributes,
    ) -> Self {
        let log_bytes = kept_bytes.map(|budget_bytes| budget_bytes.min(window_bytes));
        let destination = |to: u32| Destination {
            rank: Rank(to),
            log: ChannelLog::new(rank, incarnation, Rank(to), window_bytes),
            limits: Limits::new(of(Rank(to)), log_bytes),
            lane: match incarnation {
                Incarnation(0) => Lane::Live,
                _ => Lane::Down,
            },
            lane_begins: Position(0),
            recalled: None,
            next_ssn: Ssn(0),
            cleared: VecDeque::new(),
            queue: VecDeque::new(),
            unanswered: Vec::new(),
            packed: VecDeque::new(),
            horizon: Ssn(0),
            begins: Ssn(0),
            logged_until: Ssn(0),
            sends_from: (incarnation > Incarnation(0)).then_some(Ssn(0)),
        };
        Self {
            destinations: (0..size).map(destination).collect(),
            backlog: Vec::new(),
            controls: VecDeque::new(),
            stall: None,
            is_mid_burst: false,
        }
    }

    pub fn destination(&self, to: Rank) -> &Destination {
        &self.destinations[to.index()]
    }

    /// Bytes that all logs have taken so far.
    pub fn log_bytes_appended(&self) -> u64 {
        self.destinations.iter().map(|to| to.log.tail().0).sum()
    }

    /// Gives the next message its number.
    pub fn next_ssn(&mut self, to: Rank) -> Ssn {
        let destination = &mut self.destinations[to.index()];
        let ssn = destination.next_ssn;
        destination.next_ssn = ssn.next();
        ssn
    }

    /// Queues a send behind those before it.
    pub fn enqueue(&mut self, to: Rank, id: RequestId) {
        self.destinations[to.index()].queue.push_back(id);
        self.note_backlog(to);
    }

    /// A sent message waits for its receiver's word.
    pub fn await_answer(&mut self, to: Rank, ssn: Ssn, id: RequestId) {
        self.destinations[to.index()].unanswered.push((ssn, id));
    }

    /// `mark`: what had happened when it was made. A peer that is down asks again
    /// when it is back.
    pub fn push_control(&mut self, to: Rank, control: Control, mark: Mark) {
        if matches!(self.destinations[to.index()].lane, Lane::Down) {
            return;
        }
        self.controls.push_back((to, control, mark));
    }

    /// What everything that waits here has to wait for.
    pub fn wanted(&self) -> Mark {
        let frames = self.backlog.iter().filter_map(|to| {
            let last = self.destinations[to.index()].packed.back();
            last.map(|(_, mark)| *mark)
        });
        let controls = self.controls.iter().map(|(_, _, mark)| *mark);
        frames.chain(controls).max().unwrap_or_default()
    }

    pub(super) fn note_backlog(&mut self, to: Rank) {
        if !self.backlog.contains(&to) {
            self.backlog.push(to);
        }
    }

    pub fn has_work(&self) -> bool {
        !self.backlog.is_empty() || !self.controls.is_empty()
    }

    /// Whether the next [`Outbox::progress`] goes on though nothing arrives.
    pub fn is_mid_burst(&self) -> bool {
        self.is_mid_burst && !self.backlog.is_empty()
    }

    pub(super) fn note_mid_burst(&mut self) {
        self.is_mid_burst = true;
    }

    /// Moves on whatever can move.
    pub fn progress(&mut self, means: &mut Means<'_>) -> Result<(), EngineError> {
        self.stall = None;
        self.is_mid_burst = false;
        self.post_controls(means);
        let mut index = 0;
        while let Some(to) = self.backlog.get(index).copied() {
            if !self.destinations[to.index()].lane.is_live() {
                self.catch_up(to, means)?;
            }
            self.pump(to, means)?;
            let is_behind =
                !self.destinations[to.index()].lane.is_live() && self.is_behind(to, means);
            if self.destinations[to.index()].has_nothing_waiting() && !is_behind {
                self.backlog.swap_remove(index);
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// Whether answers wait, or what no program sees.
    #[inline]
    pub fn has_controls(&self) -> bool {
        !self.controls.is_empty()
    }

    /// Posts those that gate and fabric let go now.
    pub(super) fn post_controls(&mut self, means: &mut Means<'_>) {
        for _ in 0..self.controls.len() {
            let Some((to, control, mark)) = self.controls.pop_front() else {
                break;
            };
            // GATE-1: an answer tells the sender's program that this rank came
            // to that receive. GATE-4: what no program sees never waits.
            let pass = match control {
                Control::ClearToSend { .. } | Control::Matched { .. } => {
                    means.log.gate.pass_behind(mark)
                }
                Control::Horizon { .. } | Control::Restart { .. } | Control::AskMatched { .. } => {
                    Some(means.log.gate.pass_unseen())
                }
            };
            let posted =
                pass.is_some_and(|pass| means.log.fabric.post_control(pass, to, control).is_ok());
            if !posted {
                self.controls.push_back((to, control, mark));
            }
        }
    }

    /// Packs and posts for one peer, up to a burst. Packing goes on while the
    /// gate is shut: pack now, publish when stable.
    pub fn pump(&mut self, to: Rank, means: &mut Means<'_>) -> Result<(), EngineError> {
        let mut left = BURST_BYTES;
        loop {
            let destination = &mut self.destinations[to.index()];
            destination.post_packed(to, means);
            let cleared = destination.cleared.front();
            let Some(id) = cleared.or(destination.queue.front()).copied() else {
                return Ok(());
            };
            if left == 0 {
                self.is_mid_burst = true;
                return Ok(());
            }
            match self.pack_next(to, id, means) {
                Ok(bytes) => left = left.saturating_sub(bytes.max(64)),
                Err(stop)
                    if self.may_end_by_reclaiming(&stop, means)
                        && self.reclaim(to, &stop, means) => {}
                Err(stop) => return self.note_stall(to, stop, means),
            }
        }
    }

    /// Packs the next frame of the send that is first in line; returns its
    /// payload bytes.
    fn pack_next(
        &mut self,
        to: Rank,
        id: RequestId,
        means: &mut Means<'_>,
    ) -> Result<u64, ReserveError> {
        let destination = &mut self.destinations[to.index()];
        let Some(sending) = means.requests.sending(id) else {
            destination.step_down(id);
            return Ok(0);
        };
        let bytes = sending.buffer.message_bytes();
        if !sending.announced && bytes > destination.limits.eager_bytes_max {
            sending.way = Way::Rendezvous;
        }
        let only_announce = sending.way == Way::Rendezvous && !sending.announced;
        let rest = if only_announce {
            0
        } else {
            bytes - sending.packed_bytes
        };
        let payload_bytes = rest.min(destination.limits.fragment_bytes) as usize;
        let (kind, extent) = match (sending.announced, sending.way) {
            (true, _) => (RecordKind::Fragment, sending.packed_bytes),
            (false, Way::Eager) => (RecordKind::Eager, bytes),
            (false, Way::Rendezvous) => (RecordKind::Rendezvous, bytes),
        };
        let header = sending.to.header(kind, sending.ssn, extent);
        let (buffer, offset, whole) = (&sending.buffer, sending.packed_bytes, payload_bytes == 0);
        let log = &mut means.log;
        let frame = match destination.stage(buffer, offset, payload_bytes, whole, header, log) {
            Some(frame) => frame,
            None => {
                if !destination.log.has_room(payload_bytes) {
                    destination.before_chunk(log);
                }
                let target = destination.limits.target;
                // LOG-1: this is the log's copy and the network's at once.
                let fill = |place: &mut [u8]| buffer.pack(offset, place, target);
                let frame =
                    (destination.log).append(log.arena, payload_bytes, whole, header, fill)?;
                destination.packed.push_back((frame, log.gate.mark()));
                frame
            }
        };
        let payload_bytes = frame.payload_bytes() as u64;
        sending.packed_bytes += payload_bytes;
        sending.announced = true;
        let whole = sending.packed_bytes == bytes && !only_announce;
        let unanswered =
            only_announce || whole && sending.way == Way::Eager && sending.to.synchronous;
        let ssn = sending.ssn;
        if unanswered || whole {
            destination.step_down(id);
        }
        if unanswered {
            destination.unanswered.push((ssn, id));
            if destination.lane.suppresses(ssn) {
                self.push_control(to, Control::AskMatched { ssn }, Mark::default());
            }
        } else if whole {
            finish_send(means.requests, id);
        }
        means.statistics.rendezvous += u64::from(only_announce);
        Ok(payload_bytes)
    }

    /// Takes in what the disk has done.
    pub fn after_disk(&mut self, spilling: &mut Spilling) {
        spilling.poll();
        spilling.hand_back(&mut self.destinations);
    }

    /// A receiver has matched the announced message.
    pub fn clear_to_send(&mut self, from: Rank, ssn: Ssn) {
        let destination = &mut self.destinations[from.index()];
        if let Some(id) = destination.take_unanswered(ssn) {
            destination.cleared.push_back(id);
            self.note_backlog(from);
        }
    }

    /// A receiver has matched a synchronous send.
    pub fn matched(&mut self, from: Rank, ssn: Ssn, requests: &mut Requests) {
        let destination = &mut self.destinations[from.index()];
        if let Some(id) = destination.take_unanswered(ssn) {
            finish_send(requests, id);
            return;
        }
        // The first of several frames is matched before the last is packed.
        let first = destination.queue.front();
        if let Some(sending) = first.and_then(|id| requests.sending(*id))
            && sending.announced
            && sending.ssn == ssn
        {
            sending.to.synchronous = false;
        }
    }

    /// A receiver's checkpoint covers all messages below `ssn`. LOG-4
    pub fn horizon(&mut self, from: Rank, ssn: Ssn, means: &mut Means<'_>) {
        let destination = &mut self.destinations[from.index()];
        destination.horizon = destination.horizon.max(ssn);
        destination.trim(means.log.fabric, means.log.arena);
        means.log.spilling.trim(from, ssn);
    }

    /// Messages of any length go through a log that is freed as they go.
    pub fn lift_length_limits(&mut self) {
        for destination in &mut self.destinations {
            destination.limits.message_bytes_max = u64::MAX;
        }
    }

    /// Frees what may be freed on every channel, for one that needs memory.
    pub fn trim_all(&mut self, fabric: &mut dyn Fabric, arena: &mut Arena) {
        for destination in &mut self.destinations {
            destination.trim(fabric, arena);
        }
    }
}

/// What a destination needs of the engine to write into its log.
pub(super) struct LogMeans<'a> {
    pub fabric: &'a mut dyn Fabric,
    pub arena: &'a mut Arena,
    pub gate: &'a Gate,
    pub spilling: &'a mut Spilling,
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
    fn has_nothing_waiting(&self) -> bool {
        self.queue.is_empty() & self.packed.is_empty() & self.cleared.is_empty()
    }

    /// Whether no send is under way, nor anything of one.
    pub fn is_clear_of_sends(&self) -> bool {
        self.has_nothing_waiting() && matches!(self.lane, Lane::Down)
    }

    /// A chunk is about to be taken: those that are free come first, the one
    /// freed last is still in the cache.
    #[cold]
    pub fn before_chunk(&mut self, means: &mut LogMeans<'_>) {
        means.spilling.before_chunk(self.rank, self, means.arena);
        self.trim(means.fabric, means.arena);
    }

    /// All messages below are free. LOG-4
    pub fn horizon(&self) -> Ssn {
        self.horizon
    }

    /// Everything before this position was posted, so its records are published.
    pub fn posted(&self) -> Position {
        let waiting = self.packed.front();
        waiting.map_or(self.log.tail(), |(frame, _)| frame.position)
    }

    pub fn trim(&mut self, fabric: &mut dyn Fabric, arena: &mut Arena) {
        let released = self.released(self.rank, fabric);
        if self.limits.keeps_payload {
            self.log.trim_below(arena, self.horizon, released);
        } else {
            self.log.trim_released(arena, released);
        }
    }

    /// Posts packed frames in order as far as gate and fabric allow. GATE-1
    fn post_packed(&mut self, to: Rank, means: &mut Means<'_>) {
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

    /// The send that is first in line is through here.
    fn step_down(&mut self, id: RequestId) {
        if self.cleared.front() == Some(&id) {
            self.cleared.pop_front();
        } else if self.queue.front() == Some(&id) {
            self.queue.pop_front();
        }
    }

    fn take_unanswered(&mut self, ssn: Ssn) -> Option<RequestId> {
        let at = self.unanswered.iter().position(|(of, _)| *of == ssn)?;
        Some(self.unanswered.swap_remove(at).1)
    }
}
