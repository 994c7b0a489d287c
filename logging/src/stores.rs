//! Where the events of a rank become stable: at event loggers, or at other ranks, or both.

use crate::determinant::batch::BatchHeader;
use crate::determinant::{EventIndex, Match};
use crate::held::{AtRanks, Holdings};
use crate::pessimist::Commits;
use refrain_ring::{Carriage, Clock, Rank};

/// The stores of a rank's events. `L`: commits to event loggers.
#[derive(Debug)]
pub enum Stores<L> {
    /// Event loggers.
    Loggers(Box<L>),
    /// Other ranks, perhaps with event loggers beside them.
    Ranks(Box<AtRanks<L>>),
}

impl<L: Commits> Stores<L> {
    /// The events at ranks, if they are there.
    #[inline]
    pub fn holdings(&self) -> Option<&Holdings> {
        match self {
            Self::Loggers(_) => None,
            Self::Ranks(ranks) => Some(&ranks.holdings),
        }
    }

    /// As [`Stores::holdings`], mutable.
    #[inline]
    pub fn holdings_mut(&mut self) -> Option<&mut Holdings> {
        match self {
            Self::Loggers(_) => None,
            Self::Ranks(ranks) => Some(&mut ranks.holdings),
        }
    }
}

impl<L: Commits> Commits for Stores<L> {
    #[inline]
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        match self {
            Self::Loggers(loggers) => loggers.commit(header, batch),
            Self::Ranks(ranks) => ranks.commit(header, batch, L::commit),
        }
    }

    #[inline]
    fn takes_matches(&self) -> bool {
        self.holdings().is_some_and(Commits::takes_matches)
    }

    #[inline]
    fn commit_match(&mut self, header: &BatchHeader, payload: &[u8], alone: Match) {
        if let Some(holdings) = self.holdings_mut() {
            holdings.commit_match(header, payload, alone);
        }
    }

    #[inline]
    fn stable_end(&self) -> EventIndex {
        match self {
            Self::Loggers(loggers) => loggers.stable_end(),
            Self::Ranks(ranks) => ranks.holdings.stable_end(),
        }
    }

    #[inline]
    fn poll(&mut self) -> EventIndex {
        match self {
            Self::Loggers(loggers) => loggers.poll(),
            Self::Ranks(ranks) => {
                ranks.poll_loggers();
                ranks.holdings.stable_end()
            }
        }
    }

    #[inline]
    fn prepare(&mut self, header: &BatchHeader, batch: &[u8]) {
        let loggers = match self {
            Self::Loggers(loggers) => Some(&mut **loggers),
            Self::Ranks(ranks) => ranks.loggers_mut(),
        };
        if let Some(loggers) = loggers {
            loggers.prepare(header, batch);
        }
    }

    #[inline]
    fn commit_prepared(&mut self, header: &BatchHeader, batch: &[u8]) {
        match self {
            Self::Loggers(loggers) => loggers.commit_prepared(header, batch),
            Self::Ranks(ranks) => ranks.commit(header, batch, L::commit_prepared),
        }
    }

    fn is_instant(&self) -> bool {
        match self {
            Self::Loggers(loggers) => loggers.is_instant(),
            Self::Ranks(ranks) => ranks.is_instant(),
        }
    }

    fn trim(&mut self, before: Clock) {
        match self {
            Self::Loggers(loggers) => loggers.trim(before),
            Self::Ranks(ranks) => ranks.trim(before),
        }
    }

    fn leave(&mut self) -> bool {
        match self {
            Self::Loggers(loggers) => loggers.leave(),
            Self::Ranks(ranks) => ranks.leave(),
        }
    }

    fn press(&mut self) {
        if let Some(holdings) = self.holdings_mut() {
            holdings.press();
        }
    }

    fn idle(&mut self) {
        if let Self::Ranks(ranks) = self {
            ranks.poll_loggers();
            ranks.holdings.idle();
        }
    }

    #[inline]
    fn may_carry(&self, to: Rank, has_pending: impl FnOnce() -> bool) -> bool {
        (self.holdings()).is_none_or(|holdings| holdings.may_carry(to, has_pending))
    }

    fn carry(&mut self, carriage: Carriage, out: &mut Vec<u8>) -> bool {
        (self.holdings_mut()).is_none_or(|holdings| holdings.carry(carriage, out))
    }

    #[inline]
    fn carry_alone(
        &mut self,
        carriage: Carriage,
        first: EventIndex,
        alone: &Match,
        out: &mut Vec<u8>,
    ) -> bool {
        (self.holdings_mut())
            .is_some_and(|holdings| holdings.carry_alone(carriage, first, alone, out))
    }

    #[inline]
    fn carried(&mut self, to: Rank) {
        if let Some(holdings) = self.holdings_mut() {
            holdings.carried(to);
        }
    }

    fn take_carried(&mut self, from: Rank, attachment: &[u8]) -> Result<(), &'static str> {
        match self {
            Self::Loggers(loggers) => loggers.take_carried(from, attachment),
            Self::Ranks(ranks) => ranks.holdings.take_carried(from, attachment),
        }
    }

    #[inline]
    fn matched(&mut self, source: Rank) {
        if let Some(holdings) = self.holdings_mut() {
            holdings.matched(source);
        }
    }

    #[inline]
    fn tell(&mut self, piece: &mut [u8]) -> Option<(Rank, usize)> {
        self.holdings_mut()?.tell(piece)
    }

    fn hear(&mut self, from: Rank, piece: &[u8]) -> Result<(), &'static str> {
        match self {
            Self::Loggers(loggers) => loggers.hear(from, piece),
            Self::Ranks(ranks) => ranks.holdings.hear(from, piece),
        }
    }

    fn fenced(&mut self, peer: Rank) {
        if let Some(holdings) = self.holdings_mut() {
            holdings.fenced(peer);
        }
    }

    fn connected(&mut self, peer: Rank) {
        if let Some(holdings) = self.holdings_mut() {
            holdings.connected(peer);
        }
    }

    fn explain(&self) -> Option<String> {
        match self {
            Self::Loggers(loggers) => loggers.explain(),
            Self::Ranks(ranks) => ranks.explain(),
        }
    }
}
