//! News from the launcher while a rank runs: which peers died, and which are back.
//!
//! A rank reads news now and then while it makes progress, and after each sleep. A rank that
//! computes reads none, and delays only the ranks that need something from it.

use super::World;
use super::peers::Published;
use crate::Error;
use core::time::Duration;
use refrain_job::control::News;
use refrain_job::control::message::ToLauncher;
use refrain_logging::held::Holdings;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::engine::EngineError;
use std::time::Instant;

/// Calls of progress between two reads of the control socket: one system call in this number of
/// polls.
const PROGRESS_PER_LOOK: u32 = 4096;
/// As [`PROGRESS_PER_LOOK`], while all members of a set wait for this rank, or this rank for the
/// introduction of a peer.
const PROGRESS_PER_LOOK_SOON: u32 = 64;
/// Time between two reads of the control socket in a program that asks for checkpoint requests.
const ASKING_PER_LOOK: Duration = Duration::from_millis(1);

/// When a rank reads news.
#[derive(Debug)]
pub(super) struct Attention {
    /// A peer may die without ending the job.
    pub(super) peers_may_return: bool,
    /// Peers whose introduction this rank has asked for, and that have not come.
    awaited_peers: Vec<Rank>,
    until_look: u32,
    looked: Instant,
}

impl Attention {
    pub(super) fn new(peers_may_return: bool) -> Self {
        Self {
            peers_may_return,
            awaited_peers: Vec::new(),
            until_look: PROGRESS_PER_LOOK,
            looked: Instant::now(),
        }
    }
}

impl World {
    /// Makes progress, and reads news when it is time. Returns whether anything arrived.
    #[inline]
    pub(super) fn make_progress(&mut self) -> Result<bool, Error> {
        super::forked::check()?;
        self.attention.until_look -= 1;
        if self.attention.until_look == 0 {
            self.look_for_news()?;
        }
        let arrived = match self.engine.progress() {
            Ok(arrived) => arrived,
            Err(error) => self.bear(error)?,
        };
        if self.under_way.is_any() {
            self.under_way.advance(&mut self.engine)?;
        }
        self.meet_peers()?;
        if self.recovering.is_some() {
            self.look_after_recovery(arrived)?;
        }
        Ok(arrived)
    }

    /// Reports a lost peer to the launcher in jobs that restart ranks. The launcher replaces the
    /// peer even if it lives, since the fabric gave it up.
    #[cold]
    pub(super) fn bear(&mut self, error: EngineError) -> Result<bool, Error> {
        let peer = match error {
            EngineError::PeerLost { peer, .. } if self.attention.peers_may_return => peer,
            // This rank's own next life has connections again.
            EngineError::Closed { .. } if self.attention.peers_may_return => {
                return match &mut self.control {
                    Some(control) => Err(control.ask_for_next_life(self.rank).into()),
                    None => Err(error.into()),
                };
            }
            error => return Err(error.into()),
        };
        if let (Some(life), Some(control)) = (self.engine.connected(peer), &mut self.control) {
            control.suspect(peer, life)?;
        }
        Ok(true)
    }

    /// Checks that the launcher is still there, and reads its news.
    #[cold]
    pub(super) fn look_for_news(&mut self) -> Result<(), Error> {
        self.attention.looked = Instant::now();
        let is_awaiting =
            !self.attention.awaited_peers.is_empty() || self.checkpoints.rounds.begins();
        self.attention.until_look = match is_awaiting {
            true => PROGRESS_PER_LOOK_SOON,
            false => PROGRESS_PER_LOOK,
        };
        if let Some(control) = &mut self.control {
            control.check()?;
        }
        self.heed_news()?;
        self.bound_events()?;
        self.engine.rest_idle();
        self.request_room().map(drop)
    }

    /// For a program that asks often: limits the number of system calls.
    pub(super) fn look_for_news_at_times(&mut self) -> Result<(), Error> {
        match self.attention.looked.elapsed() >= ASKING_PER_LOOK {
            true => self.look_for_news(),
            false => Ok(()),
        }
    }

    /// Asks for the introduction of peers to which something waits for the first time.
    #[inline]
    pub(super) fn meet_peers(&mut self) -> Result<(), Error> {
        while let Some(peer) = self.engine.next_wanted_peer() {
            self.attention.awaited_peers.push(peer);
            self.attention.until_look = PROGRESS_PER_LOOK_SOON.min(self.attention.until_look);
            self.tell(|control| control.meet(peer))?;
        }
        Ok(())
    }

    /// Handles the news that have arrived.
    pub(super) fn heed_news(&mut self) -> Result<(), Error> {
        while let Some(news) = self.control.as_mut().and_then(|it| it.next_news()) {
            match news {
                // A life of a peer, and all earlier lives, have ended. FENCE-1
                News::Down { rank, incarnation } => {
                    let connected = self.engine.connected(rank);
                    // A later life may already be connected, by its published address.
                    if rank != self.rank && connected.is_none_or(|life| life <= incarnation) {
                        self.engine.fence(rank);
                    }
                    self.tell_held(rank, incarnation)?;
                }
                // One of the two ranks has something to send to the other, or one is a later life.
                // REC-3
                News::Up(peer) => {
                    let (rank, incarnation) = (peer.rank, peer.incarnation);
                    (self.attention.awaited_peers).retain(|awaited| *awaited != rank);
                    let published = Published::read(peer)?;
                    if let Some(address) = self.peers.address_of(rank, &published)? {
                        self.engine.connect(rank, incarnation, &address)?;
                    }
                }
                News::CheckpointWanted => self.heed_checkpoint_request(),
                News::RoundBegins(round) => self.begin_round(round),
                News::RoundEnds { round, is_complete } => {
                    self.heed_round_end(round, is_complete)?;
                }
                News::StatusAsked => self.tell_status()?,
                // Used only while a rank joins.
                News::Remains { .. } | News::Departed(_) => {}
            }
        }
        self.tell_keeping()?;
        self.tell_restored()
    }

    /// The events at ranks, if they are there.
    pub(super) fn holdings(&mut self) -> Option<&mut Holdings> {
        let events = self.engine.protocol_mut().events_mut()?;
        events.commits_mut().holdings_mut()
    }

    /// Gives the events that this rank holds of a fenced life for the next one. TICKET-2
    fn tell_held(&mut self, of: Rank, incarnation: Incarnation) -> Result<(), Error> {
        let Some(holdings) = self.holdings() else {
            return Ok(());
        };
        let held = holdings.answer(of);
        holdings.note_death(of, incarnation);
        self.tell(|control| control.tell_held(of, incarnation, &held))
    }

    /// Tells which deaths are made good, also that of the last life of this rank. TICKET-4
    pub(super) fn tell_restored(&mut self) -> Result<(), Error> {
        while let Some((rank, incarnation)) = self.holdings().and_then(Holdings::next_restored) {
            let restored = ToLauncher::Restored {
                rank: rank.0,
                incarnation: incarnation.0,
            };
            self.tell(|control| control.report(&restored))?;
        }
        Ok(())
    }
}
