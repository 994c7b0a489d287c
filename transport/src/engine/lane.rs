//! The lanes to peers that die and come back: what is posted on them, and where
//! in the log they begin. REC-3
//!
//! Packing into the log goes on in every state. Where nothing is posted frames
//! are published all the same, as soon as the gate lets them: then they can be
//! read in the log, go to disk and be freed. A peer that has come back says which
//! message it misses first. What is published from there on is posted again, read
//! from the log ([`Resend`]); where the log has not come so far, as in a rank
//! that itself began anew, the messages before are *suppressed*.

use super::outbox::{Destination, LogMeans, Means, Outbox};
use super::read_back::{Disk, Mailbox};
use super::request::Requests;
use super::{Engine, EngineError};
use crate::control::Control;
use crate::fabric::Fabric;
use crate::gate::Mark;
use crate::protocol::Protocol;
use core::fmt;
use refrain_ring::resend::{Lane as ResendLane, Resend, Resent};
use refrain_ring::{Frame, Position, Rank, RecordKind, Ssn};
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
    /// Nothing: it has not said yet what it misses.
    Awaiting,
    /// Nothing before this message, which the log has not come to.
    Suppressing(Ssn),
    /// What was published before, from the message on that the peer missed.
    CatchingUp(Box<CatchUp>),
}

/// A log that is posted again.
pub(super) struct CatchUp {
    resend: Resend,
    /// What the disk has brought for it.
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

/// The record that is to be published next.
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
        matches!(self, Self::Suppressing(from) if ssn < *from)
    }
}

impl Destination {
    /// Nothing reaches the peer any more, and it needs nothing of the log.
    pub fn fence(&mut self) {
        self.lane = Lane::Down;
        self.recalled = None;
        self.lane_begins = Position(0);
    }

    /// Up to where the log is needed by nobody but those who read it again later.
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
            Lane::Down | Lane::Awaiting | Lane::Suppressing(_) => Position(u64::MAX),
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
            if let Lane::Suppressing(from) = self.lane
                && frame.header(region).is_ok_and(|header| header.ssn >= from)
            {
                self.end_suppressing();
                return;
            }
            frame.publish(region);
            self.packed.pop_front();
        }
    }

    /// What comes from now on is posted. The lane has nothing yet, and may have
    /// nothing for long: what lies before is needed by nobody.
    fn end_suppressing(&mut self) {
        self.lane_begins = self.posted();
        self.lane = Lane::Live;
    }

    fn next_record(&self, means: &mut Means<'_>) -> NextRecord {
        if let Some((frame, _)) = self.packed.front() {
            let header = frame.header(means.log.arena.region());
            let header = header.expect("this rank has packed it");
            return NextRecord {
                ssn: header.ssn,
                begins_message: header.kind != RecordKind::Fragment,
            };
        }
        self.next_packed(means.requests)
    }

    /// The record that is to be packed next.
    fn next_packed(&self, requests: &mut Requests) -> NextRecord {
        let mut queued = self.queue.iter();
        let first = queued.find_map(|id| {
            let sending = requests.sending(*id)?;
            Some(NextRecord {
                ssn: sending.ssn,
                begins_message: !sending.announced,
            })
        });
        first.unwrap_or(NextRecord {
            ssn: self.next_ssn,
            begins_message: true,
        })
    }

    /// The peer misses this message and all that follow it.
    fn begin_lane(&mut self, from: Ssn, means: &mut Means<'_>) {
        let next = self.next_record(means);
        let is_ahead = next.ssn < from || next.ssn == from && next.begins_message;
        self.lane = if is_ahead {
            Lane::Suppressing(from)
        } else {
            Lane::CatchingUp(Box::new(CatchUp {
                resend: Resend::new(&self.log, from),
                mailbox: Rc::default(),
                refused: None,
            }))
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
            horizon: self.horizon,
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
    /// A peer is fenced. What is said to it and did not leave is for that life:
    /// the next one asks. FENCE-1
    pub fn fence(&mut self, peer: Rank) {
        self.destinations[peer.index()].fence();
        self.controls.retain(|(to, ..)| *to != peer);
    }

    /// A peer was connected. If one of the two began anew (`restart`: the first
    /// message of the peer that is missing here) nothing is posted to it before it
    /// has said what it misses, and what it may free is told again. REC-3
    pub fn connect(&mut self, peer: Rank, restart: Option<Ssn>, horizon_told: Ssn) {
        let destination = &mut self.destinations[peer.index()];
        let Some(ssn) = restart else {
            destination.lane = Lane::Live;
            return;
        };
        destination.lane = Lane::Awaiting;
        let mark = Mark::default();
        self.push_control(peer, Control::Restart { ssn }, mark);
        if horizon_told > Ssn(0) {
            self.push_control(peer, Control::Horizon { ssn: horizon_told }, mark);
        }
    }

    /// A peer misses a message, and all that follow it. Returns whether it is the
    /// first word of any life of the peer to this life, which is a later one. REC-3
    ///
    /// # Errors
    /// When what it misses is not in the log any more.
    pub fn restart(
        &mut self,
        from: Rank,
        ssn: Ssn,
        means: &mut Means<'_>,
    ) -> Result<bool, EngineError> {
        let destination = &mut self.destinations[from.index()];
        if !matches!(destination.lane, Lane::Awaiting) {
            return Ok(false);
        }
        let kept_from = destination.kept_from();
        if ssn < kept_from {
            return Err(EngineError::Freed {
                peer: from,
                ssn,
                kept_from,
            });
        }
        let sends_from = destination.sends_from.take();
        if let Some(sends_from) = sends_from {
            means.statistics.sends_suppressed += ssn.0.saturating_sub(sends_from.0);
        }
        destination.publish_packed(&mut means.log);
        destination.begin_lane(ssn, means);
        // Those after it come again, and are answered then.
        let unanswered = destination.unanswered.iter().map(|(of, _)| *of);
        let asked: Vec<Ssn> = unanswered.filter(|of| *of < ssn).collect();
        for ssn in asked {
            self.push_control(from, Control::AskMatched { ssn }, Mark::default());
        }
        self.note_backlog(from);
        Ok(sends_from.is_some())
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
        // A rank that only waits for the peer that is to be brought up packs
        // nothing, and nobody else would make room.
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
        if let Lane::Suppressing(from) = destination.lane
            && destination.next_record(means).ssn >= from
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
            Lane::Down | Lane::Awaiting
        )
    }

    /// The first message to `to` that is kept, in memory or on disk. LOG-4
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn log_kept_from(&self, to: Rank) -> Ssn {
        self.outbox.destination(to).kept_from()
    }
}
