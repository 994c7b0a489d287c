//! The lanes to peers, which may die and come back: what is posted on a lane, and where it begins
//! in the log. REC-3
//!
//! Packing into the log continues in every state of a lane. If nothing is posted, frames are
//! published all the same, as soon as the gate allows: then they can be read in the log, written to
//! disk and freed. A peer that has come back reports the first message of each stream that it
//! misses (STREAM-3). Records that were published from there on are read from the log ([`Resend`])
//! and posted again. If the log has not reached that message, as in a rank that itself was
//! restarted, the messages before it are *suppressed*.

use super::destination::Destination;
use super::outbox::{LogMeans, Means, Outbox};
use super::read_back::{Disk, Mailbox};
use super::{Engine, EngineError};
use crate::control::Control;
use crate::fabric::Fabric;
use crate::gate::Mark;
use crate::protocol::Protocol;
use core::fmt;
use refrain_ring::resend::{Lane as ResendLane, Resend, Resent};
use refrain_ring::{Frame, Frontier, Incarnation, Position, Rank, RecordKind, Ssn, Stream};
use std::rc::Rc;

/// Bytes posted again to one peer before other peers, and arrivals, have their turn.
const BURST_BYTES: usize = 512 << 10;

/// What is posted to a peer.
#[derive(Debug)]
pub(super) enum Lane {
    /// Every frame, when it is packed and the gate is open.
    Live,
    /// Nothing, and nothing is packed: the two ranks have not been introduced, in any of their
    /// lives.
    Unmet {
        /// The introduction was asked for.
        is_wanted: bool,
    },
    /// Nothing: the peer is not connected.
    Down,
    /// Nothing: the peer has not reported yet which message of every stream it misses first. Holds
    /// the messages that it has reported.
    Awaiting(Vec<Ssn>),
    /// Nothing yet: the log has not reached these messages, the first that the peer misses.
    Suppressing(Frontier),
    /// Records that were published before, from the first message on that the peer misses.
    CatchingUp(Box<CatchUp>),
}

/// A log that is posted again.
pub(super) struct CatchUp {
    resend: Resend,
    /// Chunks that were read from disk for it.
    mailbox: Rc<Mailbox>,
    /// The next frame, if the fabric had no room for it.
    refused: Option<Frame>,
}

impl fmt::Debug for CatchUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatchUp")
            .field("resend", &self.resend)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

/// A record that is to be published.
#[derive(Clone, Copy)]
struct NextRecord {
    ssn: Ssn,
    begins_message: bool,
}

impl Lane {
    #[inline]
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Live)
    }

    /// Whether the peer gets this message over an earlier connection only, if at all.
    pub fn suppresses(&self, ssn: Ssn) -> bool {
        matches!(self, Self::Suppressing(from) if from.is_beyond(ssn))
    }
}

impl Destination {
    /// Ends the lane: nothing reaches the peer any more, and the lane needs nothing of the log.
    pub fn fence(&mut self) {
        self.lane = Lane::Down;
        self.recalled = None;
        self.lane_begins = Position(0);
    }

    /// The position before which only later readers need the log.
    pub fn released(&mut self, to: Rank, fabric: &mut dyn Fabric) -> Position {
        let released = match &mut self.lane {
            Lane::Live => {
                let released = fabric.released(to).max(self.lane_begins);
                self.recalled.take_if(|resend| {
                    resend.release(released);
                    !resend.holds_memory()
                });
                released
            }
            Lane::Unmet { .. } | Lane::Down | Lane::Awaiting(_) | Lane::Suppressing(_) => {
                Position(u64::MAX)
            }
            Lane::CatchingUp(catch_up) => {
                let released = fabric.released(to);
                catch_up.resend.release(released);
                catch_up.resend.trimmable(released)
            }
        };
        // Records that are not published yet are still needed.
        released.min(self.posted())
    }

    /// Publishes packed frames in order as far as the gate allows. GATE-1
    #[cold]
    pub fn publish_packed(&mut self, means: &mut LogMeans<'_>) {
        while let Some((frame, mark)) = self.packed.front() {
            if means.gate.pass_behind(*mark).is_none() {
                return;
            }
            let region = means.arena.region();
            if let Lane::Suppressing(from) = &self.lane
                && frame
                    .header(region)
                    .is_ok_and(|header| !from.is_beyond(header.ssn))
            {
                self.end_suppressing();
                return;
            }
            frame.publish(region);
            self.packed.pop_front();
        }
    }

    /// Makes the lane live: later frames are posted. The fabric has read nothing yet, maybe for
    /// long, so `lane_begins` marks the log before them as not needed.
    fn end_suppressing(&mut self) {
        self.lane_begins = self.posted();
        self.lane = Lane::Live;
    }

    /// The record of a stream that is published next: the first packed one, or else the first that
    /// is to be packed.
    fn next_record(&self, stream: Stream, means: &mut Means<'_>) -> NextRecord {
        let region = means.log.arena.region();
        let mut packed = self.packed.iter().map(|(frame, _)| {
            let header = frame.header(region).expect("this rank has packed it");
            NextRecord {
                ssn: header.ssn,
                begins_message: header.kind != RecordKind::Fragment,
            }
        });
        if let Some(next) = packed.find(|next| next.ssn.stream() == stream) {
            return next;
        }
        let mut queued = self.queue.iter().filter_map(|id| {
            let sending = means.requests.sending(*id)?;
            Some(NextRecord {
                ssn: sending.ssn,
                begins_message: !sending.announced,
            })
        });
        let next = queued.find(|next| next.ssn.stream() == stream);
        next.unwrap_or(NextRecord {
            ssn: self.next.of(stream),
            begins_message: true,
        })
    }

    /// Whether no published record belongs to a message from `from` on.
    fn is_before(&self, from: &Frontier, means: &mut Means<'_>) -> bool {
        self.next.all().all(|ssn| {
            let next = self.next_record(ssn.stream(), means);
            let from = from.of(ssn.stream());
            next.ssn < from || next.ssn == from && next.begins_message
        })
    }

    /// Whether the next record to publish, of any stream, belongs to a message from `from` on.
    /// Without a next record: whether no message before `from` is still to come.
    fn comes_to(&self, from: &Frontier, means: &mut Means<'_>) -> bool {
        let packed = self.packed.front().map(|(frame, _)| {
            let header = frame.header(means.log.arena.region());
            header.expect("this rank has packed it").ssn
        });
        let mut queued = self.queue.iter();
        let next = packed.or_else(|| queued.find_map(|id| Some(means.requests.sending(*id)?.ssn)));
        match next {
            Some(ssn) => !from.is_beyond(ssn),
            None => from.is_within(&self.next),
        }
    }

    /// Begins to post to a peer that misses these messages and all that follow them.
    fn begin_lane(&mut self, from: Frontier, means: &mut Means<'_>) {
        self.lane = match self.is_before(&from, means) {
            true => Lane::Suppressing(from),
            false => Lane::CatchingUp(Box::new(CatchUp {
                resend: Resend::new(&self.log, from),
                mailbox: Rc::default(),
                refused: None,
            })),
        };
    }

    /// Posts records that were published before, at most a burst of them. Returns whether the burst
    /// was used up.
    fn catch_up(&mut self, to: Rank, means: &mut LogMeans<'_>) -> Result<bool, EngineError> {
        let mut left = BURST_BYTES;
        while left > 0 {
            let Some(frame) = self.next_again(to, means)? else {
                return Ok(false);
            };
            let pass = means.gate.pass_again();
            if means.fabric.post(pass, to, &frame).is_err() {
                if let Lane::CatchingUp(catch_up) = &mut self.lane {
                    catch_up.refused = Some(frame);
                }
                return Ok(false);
            }
            left = left.saturating_sub(frame.bytes);
        }
        Ok(true)
    }

    /// The next frame that is to be posted again. `None`: the frame is still being read, or the
    /// lane is live.
    fn next_again(
        &mut self,
        to: Rank,
        means: &mut LogMeans<'_>,
    ) -> Result<Option<Frame>, EngineError> {
        let posted = self.posted();
        let Lane::CatchingUp(catch_up) = &mut self.lane else {
            return Ok(None);
        };
        if let Some(frame) = catch_up.refused.take() {
            return Ok(Some(frame));
        }
        for (token, bytes) in catch_up.mailbox.borrow_mut().drain(..) {
            catch_up.resend.arrived(token, bytes);
        }
        let lane = ResendLane {
            log: &self.log,
            arena: &mut *means.arena,
            posted,
            horizon: &self.horizon,
            released: means.fabric.released(to),
        };
        let mut disk = Disk {
            spilling: &mut *means.spilling,
            mailbox: &catch_up.mailbox,
            to,
        };
        match catch_up.resend.step(lane, &mut disk)? {
            Resent::Frame(frame) => Ok(Some(frame)),
            Resent::Waiting => Ok(None),
            Resent::End => {
                if let Lane::CatchingUp(catch_up) = core::mem::replace(&mut self.lane, Lane::Live) {
                    let held = catch_up.resend;
                    self.recalled = held.holds_memory().then_some(held);
                }
                Ok(None)
            }
        }
    }
}

impl Outbox {
    /// Fences a peer. Drops its control frames that did not leave: they were for that life, and the
    /// next one asks again. FENCE-1
    pub fn fence(&mut self, peer: Rank) {
        self.destinations[peer.index()].fence();
        self.controls.retain(|(to, ..)| *to != peer);
    }

    /// Connects a peer. If this rank or the peer is a later life, `restart` holds the first
    /// messages of the peer that this rank misses. Then nothing is posted to the peer before it has
    /// reported which messages it misses, and its horizons are sent again. REC-3
    pub fn connect(
        &mut self,
        (peer, life): (Rank, Incarnation),
        restart: Option<Frontier>,
        horizon_told: &Frontier,
    ) {
        let destination = &mut self.destinations[peer.index()];
        destination.life = life;
        let Some(restart) = restart else {
            destination.lane = Lane::Live;
            return;
        };
        destination.lane = Lane::Awaiting(Vec::new());
        let mark = Mark::default();
        let others = restart.all().count() as u32 - 1;
        for ssn in restart.all() {
            self.push_control(peer, Control::Restart { ssn, others }, mark);
        }
        for ssn in horizon_told.all().filter(|ssn| ssn.count() > 0) {
            self.push_control(peer, Control::Horizon { ssn }, mark);
        }
    }

    /// Handles a report of a peer: it misses a message of a stream, and all that follow it there.
    /// `others` more frames belong to the same report. Returns what the peer misses of all streams,
    /// if the report is complete, this rank is a later life, and no life of the peer has reported
    /// to it before. REC-3
    ///
    /// # Errors
    /// When a message that the peer misses is not in the log any more.
    pub fn restart(
        &mut self,
        peer: Rank,
        ssn: Ssn,
        others: u32,
        means: &mut Means<'_>,
    ) -> Result<Option<Frontier>, EngineError> {
        let destination = &mut self.destinations[peer.index()];
        let Lane::Awaiting(said) = &mut destination.lane else {
            return Ok(None);
        };
        said.push(ssn);
        if said.len() <= others as usize {
            return Ok(None);
        }
        let mut misses = Frontier::default();
        said.iter().for_each(|ssn| misses.raise_to(*ssn));
        let mut kept_from = destination.kept_from();
        // Results have no order in which one could be missed. WHOLE-2
        kept_from.lower_to(Ssn::first(Stream::RESULTS));
        let mut from = misses.clone();
        let mut freed = Vec::new();
        if self.frees_closed {
            let internal = kept_from.all().filter(|ssn| !ssn.is_program());
            freed.extend(internal.filter(|ssn| *ssn > misses.of(ssn.stream())));
            freed.iter().for_each(|ssn| from.raise_to(*ssn));
        }
        if let Some(kept_from) = kept_from.first_beyond(&from) {
            return Err(EngineError::Freed {
                peer,
                ssn: misses.of(kept_from.stream()),
                kept_from,
            });
        }
        let sends_from = destination.sends_from.take();
        for ssn in misses.all().filter(|_| sends_from.is_some()) {
            let begins = sends_from.as_ref().map_or(0, |it| it.of(ssn.stream()).0);
            means.statistics.sends_suppressed += ssn.0.saturating_sub(begins);
        }
        destination.publish_packed(&mut means.log);
        destination.begin_lane(from, means);
        // Later messages are sent again, and their matches are reported then.
        let unanswered = destination.unanswered.iter().map(|(of, _)| *of);
        let asked: Vec<Ssn> = unanswered.filter(|of| misses.is_beyond(*of)).collect();
        for ssn in asked {
            self.push_control(peer, Control::AskMatched { ssn }, Mark::default());
        }
        for ssn in freed {
            self.push_control(peer, Control::Freed { ssn }, Mark::default());
        }
        self.note_backlog(peer);
        Ok(sends_from.map(|_| misses))
    }

    /// Continues a lane that is not live.
    #[cold]
    pub(super) fn catch_up(&mut self, to: Rank, means: &mut Means<'_>) -> Result<(), EngineError> {
        let destination = &mut self.destinations[to.index()];
        destination.publish_packed(&mut means.log);
        let is_mid_burst = destination.catch_up(to, &mut means.log)?;
        let waits_for_memory = matches!(
            &destination.lane,
            Lane::CatchingUp(catch_up) if catch_up.resend.waits_for_memory()
        );
        // A rank that only waits for this peer packs nothing, so that nothing else makes
        // room.
        if waits_for_memory {
            self.reclaim_from(None, means);
        }
        if is_mid_burst {
            self.is_mid_burst = true;
        }
        Ok(())
    }

    /// Whether a lane has to continue although nothing waits: records that were published before
    /// are still to be posted. A lane becomes live here if it has reached the messages that its
    /// peer misses.
    #[cold]
    pub(super) fn is_behind(&mut self, to: Rank, means: &mut Means<'_>) -> bool {
        let destination = &mut self.destinations[to.index()];
        if let Lane::Suppressing(from) = &destination.lane
            && destination.comes_to(from, means)
        {
            destination.end_suppressing();
        }
        matches!(destination.lane, Lane::CatchingUp(_))
    }
}

impl<P: Protocol> Engine<P> {
    /// Whether a peer gets messages as soon as the gate is open: it is connected, and has the
    /// messages that it missed. A peer that was never introduced misses none.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn is_live(&self, peer: Rank) -> bool {
        let lane = &self.outbox.destination(peer).lane;
        matches!(lane, Lane::Live | Lane::Unmet { .. })
    }

    /// Whether a peer is not connected, or has not reported yet which messages it misses.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn is_away(&self, peer: Rank) -> bool {
        matches!(
            self.outbox.destination(peer).lane,
            Lane::Down | Lane::Awaiting(_)
        )
    }

    /// Of each stream the first message to `to` that is kept, in memory or on disk. LOG-4
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn log_kept_from(&self, to: Rank) -> Frontier {
        self.outbox.destination(to).kept_from()
    }
}
