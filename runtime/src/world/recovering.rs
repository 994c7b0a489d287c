//! The recovery of a later life, as it is reported to the launcher.

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
    /// Messages that had arrived before, in all lives.
    messages_before: u64,
    replay: ReplayFigures,
    /// When the launcher got the last report of progress.
    reported: Instant,
}

/// Between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);

impl Recovering {
    /// Of a life that was announced to its peers just now. `events_until`: the clock of its
    /// last recorded event.
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

/// Messages that have arrived from all others, up to the first that is missing.
fn messages_so_far(engine: &Engine) -> u64 {
    let sources = (0..engine.size()).map(Rank);
    sources.map(|source| engine.first_missing(source).0).sum()
}

pub(super) fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl World {
    /// Reports when this life has caught up.
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
        // Every other rank is connected, and has the messages that it missed.
        let all_are_live = self.others().all(|peer| self.engine.is_live(peer));
        if self.engine.is_replaying() || !all_are_live || self.engine.is_comparing() {
            return Ok(());
        }
        self.tell_recovered()
    }

    /// Whether another rank is dead, or was restarted just now.
    pub(super) fn any_is_away(&self) -> bool {
        self.others().any(|peer| self.engine.is_away(peer))
    }

    fn others(&self) -> impl Iterator<Item = Rank> {
        let own = self.rank;
        (0..self.size).map(Rank).filter(move |peer| *peer != own)
    }

    /// A program that makes an operation before it takes its checkpoint would make it a
    /// second time.
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

    /// The replay has ended, or all ranks are at their end.
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
        // No send is suppressed any more, and none is left to compare with.
        self.engine.end_comparison();
        let statistics = self.engine.statistics();
        figures.replay_us = microseconds(announced.elapsed());
        figures.messages = messages_so_far(&self.engine).saturating_sub(messages_before);
        figures.suppressed = statistics.sends_suppressed;
        figures.events = statistics.events_replayed;
        let comparison = self.engine.comparison();
        figures.compared = comparison.messages;
        figures.compared_bytes = comparison.bytes;
        figures.differing = comparison.differing_messages;
        figures.differing_bytes = comparison.differing_bytes;
        figures.first_difference = comparison.first.as_ref().map(DifferenceFigures::from);
        self.tell(|control| control.report(&ToLauncher::Recovered(Box::new(figures))))
    }
}
