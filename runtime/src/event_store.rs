//! Where the events of a rank become stable: at event loggers, or at other ranks, or both.

use refrain_eventlog::client::Client;
use refrain_job::statistics::AtRanksStatistics;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::{EventIndex, Match};
use refrain_logging::held::{AtRanks, Holdings};
use refrain_logging::pessimist::Commits;
use refrain_ring::{Carriage, Clock, Rank};

/// The store of a rank's events.
#[derive(Debug)]
pub(crate) enum EventStore {
    /// Event loggers.
    Loggers(Box<Client>),
    /// Other ranks, perhaps with event loggers beside them.
    Ranks(Box<AtRanks<Client>>),
}

impl EventStore {
    /// The events at ranks, if that is the store.
    pub(crate) fn holdings(&mut self) -> Option<&mut Holdings> {
        match self {
            Self::Loggers(_) => None,
            Self::Ranks(ranks) => Some(&mut ranks.holdings),
        }
    }
}

impl EventStore {
    /// What is held at ranks, if that is the store.
    pub(crate) fn at_ranks(&self) -> AtRanksStatistics {
        let Self::Ranks(ranks) = self else {
            return AtRanksStatistics::default();
        };
        let holdings = &ranks.holdings;
        let counts = holdings.counts();
        let (own, held) = holdings.held_events();
        AtRanksStatistics {
            carried: counts.carried,
            carried_bytes: counts.carried_bytes,
            given: counts.given,
            told_bytes: counts.told_bytes,
            own,
            held,
            held_bytes: holdings.held_bytes(),
        }
    }
}

impl Commits for EventStore {
    #[inline]
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        match self {
            Self::Loggers(client) => client.commit(header, batch),
            Self::Ranks(ranks) => ranks.commit(header, batch),
        }
    }

    #[inline]
    fn stable_end(&self) -> EventIndex {
        match self {
            Self::Loggers(client) => client.stable_end(),
            Self::Ranks(ranks) => ranks.stable_end(),
        }
    }

    #[inline]
    fn poll(&mut self) -> EventIndex {
        match self {
            Self::Loggers(client) => client.poll(),
            Self::Ranks(ranks) => ranks.poll(),
        }
    }

    #[inline]
    fn prepare(&mut self, header: &BatchHeader, batch: &[u8]) {
        match self {
            Self::Loggers(client) => client.prepare(header, batch),
            Self::Ranks(ranks) => ranks.prepare(header, batch),
        }
    }

    #[inline]
    fn commit_prepared(&mut self, header: &BatchHeader, batch: &[u8]) {
        match self {
            Self::Loggers(client) => client.commit_prepared(header, batch),
            Self::Ranks(ranks) => ranks.commit_prepared(header, batch),
        }
    }

    #[inline]
    fn takes_matches(&self) -> bool {
        matches!(self, Self::Ranks(ranks) if ranks.takes_matches())
    }

    fn commit_match(&mut self, header: &BatchHeader, payload: &[u8], alone: Match) {
        if let Self::Ranks(ranks) = self {
            ranks.commit_match(header, payload, alone);
        }
    }

    fn is_instant(&self) -> bool {
        match self {
            Self::Loggers(client) => client.is_instant(),
            Self::Ranks(ranks) => ranks.is_instant(),
        }
    }

    fn trim(&mut self, before: Clock) {
        match self {
            Self::Loggers(client) => client.trim(before),
            Self::Ranks(ranks) => ranks.trim(before),
        }
    }

    fn leave(&mut self) -> bool {
        match self {
            Self::Loggers(client) => client.leave(),
            Self::Ranks(ranks) => ranks.leave(),
        }
    }

    fn press(&mut self) {
        if let Self::Ranks(ranks) = self {
            ranks.press();
        }
    }

    fn idle(&mut self) {
        if let Self::Ranks(ranks) = self {
            ranks.idle();
        }
    }

    #[inline]
    fn may_carry(&self, to: Rank, has_pending: bool) -> bool {
        match self {
            Self::Loggers(_) => true,
            Self::Ranks(ranks) => ranks.may_carry(to, has_pending),
        }
    }

    fn carry(&mut self, carriage: Carriage, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Loggers(_) => true,
            Self::Ranks(ranks) => ranks.carry(carriage, out),
        }
    }

    #[inline]
    fn carry_alone(
        &mut self,
        carriage: Carriage,
        first: EventIndex,
        alone: &Match,
        out: &mut Vec<u8>,
    ) -> bool {
        match self {
            Self::Loggers(_) => false,
            Self::Ranks(ranks) => ranks.carry_alone(carriage, first, alone, out),
        }
    }

    #[inline]
    fn carried(&mut self, to: Rank) {
        if let Self::Ranks(ranks) = self {
            ranks.carried(to);
        }
    }

    fn take_carried(&mut self, from: Rank, attachment: &[u8]) -> Result<(), &'static str> {
        match self {
            Self::Loggers(client) => client.take_carried(from, attachment),
            Self::Ranks(ranks) => ranks.take_carried(from, attachment),
        }
    }

    #[inline]
    fn matched(&mut self, source: Rank) {
        if let Self::Ranks(ranks) = self {
            ranks.matched(source);
        }
    }

    #[inline]
    fn tell(&mut self, piece: &mut [u8]) -> Option<(Rank, usize)> {
        match self {
            Self::Loggers(_) => None,
            Self::Ranks(ranks) => ranks.tell(piece),
        }
    }

    fn hear(&mut self, from: Rank, piece: &[u8]) -> Result<(), &'static str> {
        match self {
            Self::Loggers(client) => client.hear(from, piece),
            Self::Ranks(ranks) => ranks.hear(from, piece),
        }
    }

    fn fenced(&mut self, peer: Rank) {
        if let Self::Ranks(ranks) = self {
            ranks.fenced(peer);
        }
    }

    fn connected(&mut self, peer: Rank) {
        if let Self::Ranks(ranks) = self {
            ranks.connected(peer);
        }
    }

    fn explain(&self) -> Option<String> {
        match self {
            Self::Loggers(client) => client.explain(),
            Self::Ranks(ranks) => ranks.explain(),
        }
    }
}
