//! Event loggers beside the ranks that hold events: what a logger has, no rank needs to hold, and no message
//! to carry. Ranks hold what is on its way there, so no message waits. CAUSAL-5

use super::holdings::Holdings;
use crate::determinant::EventIndex;
use crate::determinant::batch::BatchHeader;
use crate::pessimist::Commits;
use refrain_ring::Clock;
use std::collections::VecDeque;

/// Commits between two polls of the loggers of a rank that is never idle.
const COMMITS_PER_POLL: u32 = 64;

/// The events of a rank at other ranks, and at event loggers if the job has any. `L`: commits to loggers.
#[derive(Debug)]
pub struct AtRanks<L> {
    /// What ranks hold.
    pub holdings: Holdings,
    loggers: Option<AtLoggers<L>>,
}

#[derive(Debug)]
struct AtLoggers<L> {
    commits: L,
    /// One past the last determinant that was committed to them.
    end: EventIndex,
    /// Clocks to trim at, each when they have the determinants before a number. A later life takes those that
    /// loggers lack from ranks, and commits them without a gap.
    to_trim: VecDeque<(EventIndex, Clock)>,
    until_poll: u32,
}

impl<L: Commits> AtRanks<L> {
    /// Events that only ranks hold.
    pub fn new(holdings: Holdings) -> Self {
        Self {
            holdings,
            loggers: None,
        }
    }

    /// Events that also event loggers get: at first those that ranks held of earlier lives, and that the
    /// loggers do not have. They have those before the first of these.
    pub fn beside(mut holdings: Holdings, mut commits: L, job: u64) -> Self {
        let mut end = holdings.floor;
        for batch in holdings.own.batches() {
            let (header, batch) = batch.sealed_by(holdings.incarnation, job, holdings.rank);
            commits.commit(&header, &batch);
            end = header.end();
        }
        holdings.has_loggers = true;
        holdings.logged(commits.stable_end());
        Self {
            holdings,
            loggers: Some(AtLoggers {
                commits,
                end,
                to_trim: VecDeque::new(),
                until_poll: COMMITS_PER_POLL,
            }),
        }
    }

    /// Commits a batch; `to_loggers` commits it to the loggers.
    #[inline]
    pub(crate) fn commit(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        to_loggers: impl FnOnce(&mut L, &BatchHeader, &[u8]),
    ) {
        let Some(loggers) = &mut self.loggers else {
            return self.holdings.commit(header, batch);
        };
        to_loggers(&mut loggers.commits, header, batch);
        loggers.end = header.end();
        let logged = loggers.commits.stable_end();
        if logged < header.end() {
            self.holdings.commit(header, batch);
        }
        self.holdings.logged(logged);
        loggers.until_poll -= 1;
        if loggers.until_poll == 0 {
            self.poll_loggers();
        }
    }

    /// Without loggers, does nothing.
    #[inline]
    pub(crate) fn poll_loggers(&mut self) {
        let Some(loggers) = &mut self.loggers else {
            return;
        };
        loggers.until_poll = COMMITS_PER_POLL;
        if loggers.commits.stable_end() < loggers.end {
            loggers.commits.poll();
        }
        let logged = loggers.commits.stable_end();
        self.holdings.logged(logged);
        while let Some((end, before)) = loggers.to_trim.front().copied()
            && end <= logged
        {
            loggers.to_trim.pop_front();
            loggers.commits.trim(before);
        }
    }

    #[inline]
    pub(crate) fn loggers_mut(&mut self) -> Option<&mut L> {
        self.loggers.as_mut().map(|loggers| &mut loggers.commits)
    }

    pub(crate) fn is_instant(&self) -> bool {
        match &self.loggers {
            Some(loggers) => loggers.commits.is_instant(),
            None => self.holdings.is_instant(),
        }
    }

    pub(crate) fn trim(&mut self, before: Clock) {
        match &mut self.loggers {
            // Ranks drop what loggers have without that.
            Some(loggers) => {
                loggers.to_trim.push_back((loggers.end, before));
                self.poll_loggers();
            }
            None => self.holdings.trim(before),
        }
    }

    pub(crate) fn leave(&mut self) -> bool {
        self.poll_loggers();
        self.loggers_mut().is_none_or(Commits::leave)
    }

    pub(crate) fn explain(&self) -> Option<String> {
        let at_ranks = self.holdings.explain();
        let at_loggers = self.loggers.as_ref().and_then(|it| it.commits.explain());
        match (at_ranks, at_loggers) {
            (Some(ranks), Some(loggers)) => Some(format!("{ranks}; {loggers}")),
            (ranks, loggers) => ranks.or(loggers),
        }
    }
}
