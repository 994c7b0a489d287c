//! The recovery of a later life, as it reports it to the launcher.

use super::World;
use crate::Error;
use crate::protocol::Engine;
use refrain_job::control::message::{
    DifferenceFigures, RecoveryFigures, ReplayFigures, ToLauncher,
};
use refrain_ring::{Clock, Rank};
use std::time::{Duration, Instant};

/// The progress of a recovery.
#[derive(Debug)]
pub(super) struct Recovering {
    began: Instant,
    announced: Instant,
    figures: RecoveryFigures,
    /// Messages that had arrived in all lives before this recovery.
    messages_before: u64,
    replay: ReplayFigures,
    /// When the last report of progress was sent to the launcher.
    reported: Instant,
}

/// Time between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);

impl Recovering {
    /// The recovery of a life that was just announced to its peers. `events_until`: the clock of
    /// its last recorded event.
    pub(super) fn new(
        began: Instant,
        figures: RecoveryFigures,
        engine: &Engine,
        events_until: Clock,
    ) -> Self {
        let now = Instant::now();
        Self {
            began,
            announced: now,
            figures,
            messages_before: messages_so_far(engine),
            replay: ReplayFigures {
                begin: engine.now().0,
                clock: engine.now().0,
                events_until: events_until.0,
            },
            reported: now,
        }
    }
}

/// Number of messages that have arrived from all other ranks, of each up to the first missing one.
fn messages_so_far(engine: &Engine) -> u64 {
    let sources = (0..engine.size()).map(Rank);
    sources.map(|source| engine.first_missing(source).0).sum()
}

pub(super) fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl World {
    /// Reports progress, and reports the end of the recovery once this life has caught up.
    #[cold]
    pub(super) fn look_after_recovery(&mut self, arrived: bool) -> Result<(), Error> {
        let Some(recovering) = &mut self.recovering else {
            return Ok(());
        };
        if arrived && recovering.figures.first_message_us.is_none() {
            let has_come = messages_so_far(&self.engine) > recovering.messages_before;
            recovering.figures.first_message_us =
                has_come.then(|| microseconds(recovering.began.elapsed()));
        }
        if recovering.reported.elapsed() >= REPORT_EVERY {
            recovering.reported = Instant::now();
            recovering.replay.clock = self.engine.now().0;
            let figures = recovering.replay;
            self.tell(|control| control.report(&ToLauncher::Replaying(figures)))?;
        }
        self.check_restored()?;
        if self.engine.is_replaying() || self.engine.is_comparing() {
            return Ok(());
        }
        // Every other rank is connected, and has received the messages that it missed.
        if !self.others().all(|peer| self.engine.is_live(peer)) {
            return Ok(());
        }
        self.tell_recovered()
    }

    /// Whether another rank is dead, or was just restarted.
    pub(super) fn any_is_away(&self) -> bool {
        self.others().any(|peer| self.engine.is_away(peer))
    }

    fn others(&self) -> impl Iterator<Item = Rank> {
        let own = self.rank;
        (0..self.size).map(Rank).filter(move |peer| *peer != own)
    }

    /// Checks that the program has taken its checkpoint: otherwise it would repeat operations that
    /// it made before the checkpoint.
    fn check_restored(&self) -> Result<(), Error> {
        match &self.checkpoints.restored {
            Some(restored) => Err(Error::Argument(format!(
                "this process continues from checkpoint {} of rank {}, but its program begins at its beginning: call World::restored before any other operation",
                restored.number(),
                self.rank
            ))),
            None => Ok(()),
        }
    }

    /// Reports the recovery: the replay has ended, or all ranks are at their end.
    pub(super) fn tell_recovered(&mut self) -> Result<(), Error> {
        let Some(Recovering {
            announced,
            mut figures,
            messages_before,
            ..
        }) = self.recovering.take()
        else {
            return Ok(());
        };
        // No more sends are suppressed, and none is left to compare.
        self.engine.end_comparison();
        let statistics = self.engine.statistics();
        figures.replay_us = microseconds(announced.elapsed());
        figures.messages = messages_so_far(&self.engine).saturating_sub(messages_before);
        figures.suppressed = statistics.sends_suppressed;
        figures.events = self.engine.events_replayed();
        let comparison = self.engine.comparison();
        figures.compared = comparison.messages;
        figures.compared_bytes = comparison.bytes;
        figures.differing = comparison.differing_messages;
        figures.differing_bytes = comparison.differing_bytes;
        figures.first_difference = comparison.first.as_ref().map(DifferenceFigures::from);
        self.tell(|control| control.report(&ToLauncher::Recovered(Box::new(figures))))
    }
}
