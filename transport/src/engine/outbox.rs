//! Outgoing messages: packs them into the channel logs and posts the frames.

use super::carrying::Carrier;
use super::destination::{Destination, Limits, NewDestination};
use super::lane::Lane;
use super::per_rank::PerRank;
use super::request::{RequestId, Requests, SendMode};
use super::spilling::Spilling;
use super::stalling::Stall;
use super::{EngineError, Statistics};
use crate::control::Control;
use crate::fabric::Fabric;
use crate::gate::{Gate, Mark};
use refrain_ring::{Arena, Rank, RecordKind, ReserveError, SharedPayload, Ssn};
use std::collections::VecDeque;

/// Bytes packed for one peer before other peers, and arrivals, have their turn.
pub(super) const BURST_BYTES: u64 = 128 << 10;

#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) destinations: PerRank<NewDestination>,
    /// Peers for which something waits, in any of the queues.
    backlog: Vec<Rank>,
    /// Peers to which something waits that have to be introduced first, once each.
    pub wanted_peers: Vec<Rank>,
    pub(super) controls: VecDeque<(Rank, Control, Mark)>,
    pub stall: Option<Stall>,
    /// Whether messages of closed collectives are freed before a checkpoint of their receiver
    /// covers them. WHOLE-4
    pub frees_closed: bool,
    /// Whether a burst has ended and more waits: no arrival announces that it can continue.
    pub(super) is_mid_burst: bool,
    /// Number of records so far on the stream that numbers nothing: carriers, and parts of results.
    pub(super) unnumbered: u64,
    /// What the next record carries. The memory is reused.
    pub(super) attachment: Vec<u8>,
}

/// The parts of the engine that a destination needs to write into its log.
pub(super) struct LogMeans<'a> {
    pub fabric: &'a mut dyn Fabric,
    pub arena: &'a mut Arena,
    pub shared: &'a mut SharedPayload,
    pub gate: &'a Gate,
    pub spilling: &'a mut Spilling,
}

/// The parts of the engine that the outbox needs to send.
pub(super) struct Means<'a> {
    pub log: LogMeans<'a>,
    pub requests: &'a mut Requests,
    pub statistics: &'a mut Statistics,
    /// Present where messages carry events.
    pub carrier: Option<Carrier<'a>>,
}

impl Outbox {
    pub fn new(begin: NewDestination, size: u32) -> Self {
        let own = begin.rank;
        let mut destinations = PerRank::new(begin, size);
        // The lane of a rank to itself is down, which a state that is not stored does not say.
        destinations.stored(own);
        Self {
            destinations,
            backlog: Vec::new(),
            wanted_peers: Vec::new(),
            controls: VecDeque::new(),
            stall: None,
            frees_closed: false,
            is_mid_burst: false,
            unnumbered: 0,
            attachment: Vec::new(),
        }
    }

    /// Changes the limits of all destinations, also of those that begin later.
    pub fn change_limits(&mut self, change: impl Fn(&mut Limits)) {
        self.destinations
            .change(|begin| begin.limits.iter_mut().for_each(&change));
        for destination in self.destinations.iter_mut() {
            change(&mut destination.limits);
        }
    }

    pub fn destination(&self, to: Rank) -> &Destination {
        &self.destinations[to.index()]
    }

    /// Queues a send behind earlier ones.
    pub fn enqueue(&mut self, to: Rank, id: RequestId) {
        self.destinations[to.index()].queue.push_back(id);
        self.note_backlog(to);
        self.want(to);
    }

    /// `mark`: the events before the control frame. The frame is dropped if the peer is down: that
    /// peer asks again when it is back.
    pub fn push_control(&mut self, to: Rank, control: Control, mark: Mark) {
        if matches!(self.destinations[to.index()].lane, Lane::Down) {
            return;
        }
        self.controls.push_back((to, control, mark));
        self.want(to);
    }

    /// The events that have to be stable before all frames and control frames here can leave.
    pub fn wanted(&self) -> Mark {
        let frames = self.backlog.iter().filter_map(|to| {
            let last = self.destinations[to.index()].packed.back();
            last.map(|(_, mark)| *mark)
        });
        let controls = self.controls.iter().map(|(_, _, mark)| *mark);
        frames.chain(controls).max().unwrap_or_default()
    }

    /// Something is to be sent to a peer: asks for its introduction, if it was not asked for.
    fn want(&mut self, to: Rank) {
        let lane = &mut self.destinations[to.index()].lane;
        if let Lane::Unmet {
            is_wanted: is_wanted @ false,
        } = lane
        {
            *is_wanted = true;
            self.wanted_peers.push(to);
        }
    }

    pub(super) fn note_backlog(&mut self, to: Rank) {
        if !self.backlog.contains(&to) {
            self.backlog.push(to);
        }
    }

    pub fn has_work(&self) -> bool {
        !self.backlog.is_empty() || !self.controls.is_empty()
    }

    /// Whether the next [`Outbox::progress`] sends more, without an arrival.
    pub fn is_mid_burst(&self) -> bool {
        self.is_mid_burst && !self.backlog.is_empty()
    }

    /// Packs and posts for all peers as far as possible.
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

    /// Posts the control frames that gate and fabric allow now.
    pub(super) fn post_controls(&mut self, means: &mut Means<'_>) {
        // Peers to which an unseen frame was refused: the next ones wait behind it.
        let mut refused = Vec::new();
        for _ in 0..self.controls.len() {
            let Some((to, control, mark)) = self.controls.pop_front() else {
                break;
            };
            // GATE-1: an answer shows the sender's program that this rank reached that receive.
            // GATE-4: a frame that no program sees never waits.
            let is_seen = match control {
                Control::ClearToSend { .. }
                | Control::Matched { .. }
                | Control::Collective { .. } => true,
                Control::Horizon { .. }
                | Control::Restart { .. }
                | Control::AskMatched { .. }
                | Control::Freed { .. }
                | Control::Token { .. }
                | Control::TokenSeen { .. }
                | Control::Protocol(_) => false,
            };
            let pass = match is_seen {
                true => means.log.gate.pass_behind(mark),
                false => (!refused.contains(&to)).then(|| means.log.gate.pass_unseen()),
            };
            let posted =
                pass.is_some_and(|pass| means.log.fabric.post_control(pass, to, control).is_ok());
            if !posted {
                if !is_seen {
                    refused.push(to);
                }
                self.controls.push_back((to, control, mark));
            }
        }
    }

    /// Packs and posts for one peer, at most a burst. Packing continues while the gate is closed;
    /// frames are published when the events before them are stable.
    pub fn pump(&mut self, to: Rank, means: &mut Means<'_>) -> Result<(), EngineError> {
        let mut left = BURST_BYTES;
        loop {
            let destination = &mut self.destinations[to.index()];
            if let Lane::Unmet { .. } = destination.lane {
                return Ok(());
            }
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
                Err(stop) => {
                    if !self.makes_room(to, stop, means)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Packs the next frame of the send that is first in line; returns the length of its payload.
    fn pack_next(
        &mut self,
        to: Rank,
        id: RequestId,
        means: &mut Means<'_>,
    ) -> Result<u64, ReserveError> {
        match means.carrier.is_some() && means.log.gate.is_closed() {
            true => self.pack_with_events(to, id, means),
            false => self.pack_record(to, id, &[], means),
        }
    }

    /// Packs the next record of a send, with `attachment` behind the message.
    pub(super) fn pack_record(
        &mut self,
        to: Rank,
        id: RequestId,
        attachment: &[u8],
        means: &mut Means<'_>,
    ) -> Result<u64, ReserveError> {
        let Some(sending) = means.requests.sending(id) else {
            self.destinations[to.index()].step_down(id);
            return Ok(0);
        };
        if sending.publication.is_some() && means.log.shared.is_chunk_full() {
            self.trim_shared(&mut means.log);
        }
        let destination = &mut self.destinations[to.index()];
        let bytes = sending.buffer.message_bytes();
        if !sending.announced && bytes > destination.limits.eager_bytes_max {
            sending.mode = SendMode::Rendezvous;
        }
        let only_announce = sending.mode == SendMode::Rendezvous && !sending.announced;
        let rest = match only_announce {
            true => 0,
            false => bytes - sending.packed_bytes,
        };
        let payload_bytes = rest.min(destination.limits.fragment_bytes) as usize;
        let (kind, extent) = match (sending.announced, sending.mode) {
            (true, _) => (RecordKind::Fragment, sending.packed_bytes),
            (false, SendMode::Eager) => (RecordKind::Eager, bytes),
            (false, SendMode::Rendezvous) => (RecordKind::Rendezvous, bytes),
        };
        let mut header = sending.to.header(kind, sending.ssn, extent);
        if kind != RecordKind::Fragment {
            header.flags |= destination.first_flag(sending.ssn);
        }
        let log = &mut means.log;
        let payload_bytes = destination.pack(sending, payload_bytes, header, attachment, log)?;
        sending.packed_bytes += payload_bytes;
        sending.announced = true;
        let whole = sending.packed_bytes == bytes && !only_announce;
        let unanswered =
            only_announce || whole && sending.mode == SendMode::Eager && sending.to.synchronous;
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
            means.requests.finish_send(id);
        }
        means.statistics.rendezvous += u64::from(only_announce);
        Ok(payload_bytes)
    }

    /// Handles disk operations that have ended.
    pub fn after_disk(&mut self, spilling: &mut Spilling) {
        spilling.poll();
        spilling.hand_back(&mut self.destinations);
    }

    /// Handles clear-to-send: a receiver has matched the announced message.
    pub fn clear_to_send(&mut self, from: Rank, ssn: Ssn) {
        let destination = &mut self.destinations[from.index()];
        if let Some(id) = destination.take_unanswered(ssn) {
            destination.cleared.push_back(id);
            self.note_backlog(from);
        }
    }

    /// Handles a receiver's report that it has matched a synchronous send.
    pub fn matched(&mut self, from: Rank, ssn: Ssn, requests: &mut Requests) {
        let destination = &mut self.destinations[from.index()];
        if let Some(id) = destination.take_unanswered(ssn) {
            requests.finish_send(id);
            return;
        }
        // The first of several frames may be matched before the last is packed.
        let first = destination.queue.front();
        if let Some(sending) = first.and_then(|id| requests.sending(*id))
            && sending.announced
            && sending.ssn == ssn
        {
            sending.to.synchronous = false;
        }
    }

    /// Handles a horizon: a receiver's checkpoint covers all messages below `ssn` in its stream.
    /// LOG-4
    pub fn horizon(&mut self, from: Rank, ssn: Ssn, means: &mut Means<'_>) {
        let destination = &mut self.destinations[from.index()];
        destination.horizon.raise_to(ssn);
        destination.trim(means.log.fabric, means.log.arena);
        if let Some(disk) = means.log.spilling.disk_mut() {
            disk.trim(from, &destination.horizon);
        }
        self.trim_shared(&mut means.log);
    }

    /// Frees what may be freed on every channel, for a channel that needs memory.
    pub fn trim_all(&mut self, log: &mut LogMeans<'_>) {
        for destination in self.destinations.iter_mut() {
            destination.trim(log.fabric, log.arena);
        }
        self.trim_shared(log);
    }
}
