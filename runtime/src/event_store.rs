//! Where the events of a rank become stable: at event loggers, or at other ranks.

use refrain_eventlog::client::Client;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::pessimist::Commits;
use refrain_logging::ticket::Tickets;
use refrain_ring::{Clock, Rank};

/// The store of a rank's events.
#[derive(Debug)]
pub(crate) enum EventStore {
    /// Event loggers.
    Loggers(Box<Client>),
    /// Other ranks.
    Ranks(Box<Tickets>),
}

impl EventStore {
    /// The events at ranks, if that is the store.
    pub(crate) fn tickets(&mut self) -> Option<&mut Tickets> {
        match self {
            Self::Loggers(_) => None,
            Self::Ranks(tickets) => Some(tickets),
        }
    }
}

impl Commits for EventStore {
    #[inline]
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        match self {
            Self::Loggers(client) => client.commit(header, batch),
            Self::Ranks(tickets) => tickets.commit(header, batch),
        }
    }

    #[inline]
    fn stable_end(&self) -> EventIndex {
        match self {
            Self::Loggers(client) => client.stable_end(),
            Self::Ranks(tickets) => tickets.stable_end(),
        }
    }

    #[inline]
    fn poll(&mut self) -> EventIndex {
        match self {
            Self::Loggers(client) => client.poll(),
            Self::Ranks(tickets) => tickets.poll(),
        }
    }

    #[inline]
    fn prepare(&mut self, header: &BatchHeader, batch: &[u8]) {
        match self {
            Self::Loggers(client) => client.prepare(header, batch),
            Self::Ranks(tickets) => tickets.prepare(header, batch),
        }
    }

    #[inline]
    fn commit_prepared(&mut self, header: &BatchHeader, batch: &[u8]) {
        match self {
            Self::Loggers(client) => client.commit_prepared(header, batch),
            Self::Ranks(tickets) => tickets.commit_prepared(header, batch),
        }
    }

    fn is_instant(&self) -> bool {
        match self {
            Self::Loggers(client) => client.is_instant(),
            Self::Ranks(tickets) => tickets.is_instant(),
        }
    }

    fn trim(&mut self, before: Clock) {
        match self {
            Self::Loggers(client) => client.trim(before),
            Self::Ranks(tickets) => tickets.trim(before),
        }
    }

    fn leave(&mut self) -> bool {
        match self {
            Self::Loggers(client) => client.leave(),
            Self::Ranks(tickets) => tickets.leave(),
        }
    }

    #[inline]
    fn matched(&mut self, source: Rank) {
        if let Self::Ranks(tickets) = self {
            tickets.matched(source);
        }
    }

    #[inline]
    fn tell(&mut self, piece: &mut [u8]) -> Option<(Rank, usize)> {
        match self {
            Self::Loggers(_) => None,
            Self::Ranks(tickets) => tickets.tell(piece),
        }
    }

    fn hear(&mut self, from: Rank, piece: &[u8]) -> Result<(), &'static str> {
        match self {
            Self::Loggers(client) => client.hear(from, piece),
            Self::Ranks(tickets) => tickets.hear(from, piece),
        }
    }

    fn fenced(&mut self, peer: Rank) {
        if let Self::Ranks(tickets) = self {
            tickets.fenced(peer);
        }
    }

    fn connected(&mut self, peer: Rank) {
        if let Self::Ranks(tickets) = self {
            tickets.connected(peer);
        }
    }

    fn explain(&self) -> Option<String> {
        match self {
            Self::Loggers(client) => client.explain(),
            Self::Ranks(tickets) => tickets.explain(),
        }
    }
}
