//! The lanes to peers that die and come back: what is posted on them, and where
//! in the log they begin. REC-3
//!
//! Packing into the log continues in every state. Where nothing is posted, frames
//! are published all the same, as soon as the gate lets them: then they can be
//! read in the log, go to disk and be freed. A peer that has come back says which
//! message it misses first, of each stream (STREAM-3). What was published from there on
//! is posted again, read from the log ([`Resend`]); where the log has not reached that
//! message, as in a rank that itself began anew, the messages before are *suppressed*.

use super::destination::Destination;
use super::outbox::{LogMeans, Means, Outbox};
use super::read_back::{Disk, Mailbox};
use super::request::Requests;
use super::{Engine, EngineError};
use crate::control::Control;
use crate::fabric::Fabric;
use crate::gate::Mark;
use crate::protocol::Protocol;
use core::fmt;
use refrain_ring::resend::{Lane as ResendLane, Resend, Resent};
use refrain_ring::{Frame, Frontier, Position, Rank, RecordKind, Ssn, Stream};
use std::rc::Rc;

/// Bytes posted again to one peer before others, and arrivals, have their turn.
const BURST_BYTES: usize = 512 << 10;

/// What is posted to a peer.
#[derive(Debug)]
pub(super) enum Lane {
    /// Every frame, when it is packed and the gate is open.
    Live,
    /// Nothing: the peer is not connected.
    Down,
    /// Nothing: the peer has not said yet which messages it misses of every stream. Those
    /// that it has said.
    Awaiting(Vec<Ssn>),
    /// Nothing before a message that the peer misses; the log has none of these yet.
    Suppressing(Frontier),
    /// What was published before, from the first message on that the peer misses.
    CatchingUp(Box<CatchUp>),
}

/// A log that is posted again.
pub(super) struct CatchUp {
    resend: Resend,
    /// Chunks that the disk has read for it.
    mailbox: Rc<Mailbox>,
    /// The next frame: the fabric had no room for it.
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

/// The record of a stream that is to be published next.
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

    /// Whether the peer gets this message by an earlier connection only, if at
    /// all.
    pub fn suppresses(&self, ssn: Ssn) -> bool {
        matches!(self, Self::Suppressing(from) if from.is_beyond(ssn))
    }
}

impl Destination {
    /// Nothing reaches the peer any more, and it needs nothing of the log.
    pub fn fence(&mut self) {
        self.lane = Lane::Down;
        self.recalled = None;
        self.lane_begins = Position(0);
    }

    /// Up to where only later readers need the log.
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
            Lane::Down | Lane::Awaiting(_) | Lane::Suppressing(_) => Position(u64::MAX),
            Lane::CatchingUp(catch_up) => {
                let released = fabric.released(to);
                catch_up.resend.release(released);
                catch_up.resend.trimmable(released)
            }
        };
        // What is not published yet is still to be.
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

    /// Later frames are posted. The lane has nothing yet, and may have nothing for long:
    /// the log before is not needed.
    fn end_suppressing(&mut self) {
        self.lane_begins = self.posted();
        self.lane = Lane::Live;
    }

    fn next_record(&self, stream: Stream, means: &mut Means<'_>) -> NextRecord {
        let region = means.log.arena.region();
        let headers = self.packed.iter().map(|(frame, _)| frame.header(region));
        let mut headers = headers.map(|header| header.expect("this rank has packed it"));
        if let Some(header) = headers.find(|header| header.ssn.stream() == stream) {
            return NextRecord {
                ssn: header.ssn,
                begins_message: header.kind != RecordKind::Fragment,
            };
        }
        self.next_packed(stream, means.requests)
    }

    /// The record that is to be packed next.
    fn next_packed(&self, stream: Stream, requests: &mut Requests) -> NextRecord {
        let mut queued = self.queue.iter();
        let first = queued.find_map(|id| {
            let sending = requests.sending(*id)?;
            let next = NextRecord {
                ssn: sending.ssn,
                begins_message: !sending.announced,
            };
            (sending.ssn.stream() == stream).then_some(next)
        });
        first.unwrap_or(NextRecord {
            ssn: self.next.of(stream),
            begins_message: true,
        })
    }

    /// Whether nothing that is published belongs to a message from `from` on.
    fn is_before(&self, from: &Frontier, means: &mut Means<'_>) -> bool {
        self.next.all().all(|ssn| {
            let next = self.next_record(ssn.stream(), means);
            let from = from.of(ssn.stream());
            next.ssn < from || next.ssn == from && next.begins_message
        })
    }

    /// Whether the record that is to be published next, of any stream, belongs to a
    /// message from `from` on, or nothing before `from` is still to come.
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

    /// The peer misses these messages and all that follow them.
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

    /// Posts what was published before, up to a burst; whether it is the burst
    /// that ended.
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

    /// The next frame that is to be posted again. Without one, it is on its way,
    /// or the lane is live.
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
    /// Fences a peer. Control frames that did not leave were for that life:
    /// the next one asks. FENCE-1
    pub fn fence(&mut self, peer: Rank) {
        self.destinations[peer.index()].fence();
        self.controls.retain(|(to, ..)| *to != peer);
    }

    /// A peer was connected. If one of the two began anew (`restart`: the first
    /// messages of the peer that are missing here) nothing is posted to it before it
    /// has said which messages it misses, and its horizons are sent again. REC-3
    pub fn connect(&mut self, peer: Rank, restart: Option<Frontier>, horizon_told: &Frontier) {
        let destination = &mut self.destinations[peer.index()];
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

    /// A peer misses a message of a stream, and all that follow it there; `others` such
    /// frames belong together. Returns what it misses of all streams if that is now known, and
    /// if this is the first such report of any life of the peer to this, a later life.
    /// REC-3
    ///
    /// # Errors
    /// When what it misses is not in the log any more.
    pub fn restart(
        &mut self,
        from: Rank,
        ssn: Ssn,
        others: u32,
        means: &mut Means<'_>,
    ) -> Result<Option<Frontier>, EngineError> {
        let destination = &mut self.destinations[from.index()];
        let Lane::Awaiting(said) = &mut destination.lane else {
            return Ok(None);
        };
        said.push(ssn);
        if said.len() <= others as usize {
            return Ok(None);
        }
        let mut misses = Frontier::default();
        said.iter().for_each(|ssn| misses.raise_to(*ssn));
        let kept_from = destination.kept_from();
        if let Some(kept_from) = kept_from.first_beyond(&misses) {
            return Err(EngineError::Freed {
                peer: from,
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
        destination.begin_lane(misses.clone(), means);
        // Those after it come again, and are answered then.
        let unanswered = destination.unanswered.iter().map(|(of, _)| *of);
        let asked: Vec<Ssn> = unanswered.filter(|of| misses.is_beyond(*of)).collect();
        for ssn in asked {
            self.push_control(from, Control::AskMatched { ssn }, Mark::default());
        }
        self.note_backlog(from);
        Ok(sends_from.map(|_| misses))
    }

    /// Moves a lane on that is not live.
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
            self.note_mid_burst();
        }
        Ok(())
    }

    /// Whether a lane has to be moved on again although nothing waits: what was
    /// published before is still to be posted. One that has come to what its peer
    /// misses is live.
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
    /// Whether a peer gets what is sent to it as soon as the gate is open: it is
    /// there, and has what it missed.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn is_live(&self, peer: Rank) -> bool {
        self.outbox.destination(peer).lane.is_live()
    }

    /// Whether a peer is not connected, or has not said yet what it misses.
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
