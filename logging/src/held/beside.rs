//! Event loggers beside the ranks that hold events: what a logger has, no rank needs to hold, and no message
//! to carry. Ranks hold what is on its way there, so no message waits. CAUSAL-5

use super::holdings::Holdings;
use crate::determinant::batch::BatchHeader;
use crate::determinant::{EventIndex, Match};
use crate::pessimist::Commits;
use refrain_ring::{Carriage, Clock, Rank};
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

    #[inline]
    fn commit_with(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        commit: impl FnOnce(&mut L, &BatchHeader, &[u8]),
    ) {
        let Some(loggers) = &mut self.loggers else {
            return self.holdings.commit(header, batch);
        };
        commit(&mut loggers.commits, header, batch);
        loggers.end = header.end();
        let logged = loggers.commits.stable_end();
        if logged < header.end() {
            self.holdings.commit(header, batch);
        }
        self.holdings.logged(logged);
        self.poll_sometimes();
    }

    #[inline]
    fn poll_sometimes(&mut self) {
        if let Some(loggers) = &mut self.loggers {
            loggers.until_poll -= 1;
            if loggers.until_poll == 0 {
                self.poll_loggers();
            }
        }
    }

    /// Without loggers, does nothing.
    fn poll_loggers(&mut self) {
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
}

impl<L: Commits> Commits for AtRanks<L> {
    #[inline]
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.commit_with(header, batch, L::commit);
    }

    #[inline]
    fn takes_matches(&self) -> bool {
        self.holdings.takes_matches()
    }

    #[inline]
    fn commit_match(&mut self, header: &BatchHeader, payload: &[u8], alone: Match) {
        self.holdings.commit_match(header, payload, alone);
    }

    #[inline]
    fn stable_end(&self) -> EventIndex {
        self.holdings.stable_end()
    }

    #[inline]
    fn poll(&mut self) -> EventIndex {
        self.poll_loggers();
        self.holdings.stable_end()
    }

    #[inline]
    fn prepare(&mut self, header: &BatchHeader, batch: &[u8]) {
        if let Some(loggers) = &mut self.loggers {
            loggers.commits.prepare(header, batch);
        }
    }

    #[inline]
    fn commit_prepared(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.commit_with(header, batch, L::commit_prepared);
    }

    fn is_instant(&self) -> bool {
        match &self.loggers {
            Some(loggers) => loggers.commits.is_instant(),
            None => self.holdings.is_instant(),
        }
    }

    fn trim(&mut self, before: Clock) {
        match &mut self.loggers {
            // Ranks drop what loggers have without that.
            Some(loggers) => {
                loggers.to_trim.push_back((loggers.end, before));
                self.poll_loggers();
            }
            None => self.holdings.trim(before),
        }
    }

    fn leave(&mut self) -> bool {
        self.poll_loggers();
        (self.loggers.as_mut()).is_none_or(|loggers| loggers.commits.leave())
    }

    fn press(&mut self) {
        self.holdings.press();
    }

    fn idle(&mut self) {
        self.poll_loggers();
        self.holdings.idle();
    }

    #[inline]
    fn may_carry(&self, to: Rank, has_pending: bool) -> bool {
        self.holdings.may_carry(to, has_pending)
    }

    #[inline]
    fn carry(&mut self, carriage: Carriage, out: &mut Vec<u8>) -> bool {
        self.holdings.carry(carriage, out)
    }

    #[inline]
    fn carry_alone(
        &mut self,
        carriage: Carriage,
        first: EventIndex,
        alone: &Match,
        out: &mut Vec<u8>,
    ) -> bool {
        // Loggers take whole batches.
        self.loggers.is_none() && self.holdings.carry_alone(carriage, first, alone, out)
    }

    #[inline]
    fn carried(&mut self, to: Rank) {
        self.holdings.carried(to);
    }

    #[inline]
    fn take_carried(&mut self, from: Rank, attachment: &[u8]) -> Result<(), &'static str> {
        self.holdings.take_carried(from, attachment)
    }

    #[inline]
    fn matched(&mut self, source: Rank) {
        self.holdings.matched(source);
    }

    #[inline]
    fn tell(&mut self, piece: &mut [u8]) -> Option<(Rank, usize)> {
        self.holdings.tell(piece)
    }

    fn hear(&mut self, from: Rank, piece: &[u8]) -> Result<(), &'static str> {
        self.holdings.hear(from, piece)
    }

    fn fenced(&mut self, peer: Rank) {
        self.holdings.fenced(peer);
    }

    fn connected(&mut self, peer: Rank) {
        self.holdings.connected(peer);
    }

    fn explain(&self) -> Option<String> {
        let at_ranks = self.holdings.explain();
        let at_loggers = self.loggers.as_ref().and_then(|it| it.commits.explain());
        match (at_ranks, at_loggers) {
            (Some(ranks), Some(loggers)) => Some(format!("{ranks}; {loggers}")),
            (ranks, loggers) => ranks.or(loggers),
        }
    }
}
