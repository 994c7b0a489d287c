//! A rank's side: commits to a quorum of loggers, keeps what is not stable,
//! comes back to loggers that were away.
//!
//! Never blocks but in [`Client::connect`] and has no thread: whoever owns it
//! calls [`Client::poll`] while something is not stable.

mod address;

pub use address::LoggerAddress;

use crate::Level;
use crate::message::Way;
use core::time::Duration;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Incarnation, Rank};
use thiserror::Error;

/// What a client is to do.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: Rank,
    /// Its life.
    pub incarnation: Incarnation,
    /// The replicas of its shard.
    pub loggers: Vec<LoggerAddress>,
    /// How many of them make a commit stable (1 to all).
    pub quorum: usize,
    /// What a commit has to reach at each of them. EL-1
    pub level: Level,
    /// How to commit; `None`: shared memory where the address allows it, else
    /// messages.
    pub way: Option<Way>,
    /// How long [`Client::connect`] waits for a quorum.
    pub connect_wait: Duration,
    /// The file of libfabric, for [`Way::Libfabric`].
    pub libfabric: Option<String>,
    /// The provider, for [`Way::Libfabric`].
    pub provider: Option<String>,
}

/// Why a client cannot be.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No quorum answered in time.
    #[error("{answered} of {quorum} event loggers answered within {waited_ms} ms: {why}")]
    NoQuorum {
        /// How many did.
        answered: usize,
        /// How many are needed.
        quorum: usize,
        /// How long it waited.
        waited_ms: u64,
        /// What the others said.
        why: String,
    },
    /// A logger refuses this client for good.
    #[error("event logger {address}: {reason}")]
    Refused {
        /// Which.
        address: String,
        /// Its words, or what is wrong with them.
        reason: String,
    },
}

/// Commits the batches of one rank. See the [module](self).
#[derive(Debug)]
pub struct Client {
    _options: ClientOptions,
}

impl Client {
    /// Connects to a quorum of the loggers; determinants are numbered from what
    /// they have ([`Client::next`]).
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn connect(options: ClientOptions) -> Result<Self, ClientError> {
        Ok(Self { _options: options })
    }

    /// Number of the first determinant that this client commits.
    pub fn next(&self) -> EventIndex {
        EventIndex(0)
    }

    /// Begins a commit: writes the batch to every logger that can take it now,
    /// and keeps it until it is stable. Batches come in order, without gaps.
    /// EL-3, GATE-2
    pub fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        let _ = (header, batch);
    }

    /// One past the last determinant that is stable, as far as is known without
    /// looking.
    #[inline]
    pub fn stable_end(&self) -> EventIndex {
        EventIndex(u64::MAX)
    }

    /// Takes in acknowledgements, sends what waits for room, comes back to
    /// loggers that were lost; returns [`Client::stable_end`]. `now`: time since
    /// any fixed point, asked only where something is to be timed.
    pub fn poll(&mut self, now: impl FnMut() -> Duration) -> EventIndex {
        let _ = now;
        self.stable_end()
    }

    /// Tells the loggers that determinants with at most this clock will not be
    /// asked for any more. GC-1
    pub fn trim(&mut self, clock: Clock) {
        let _ = clock;
    }

    /// Why the commits under way are not stable, for people; `None` when they
    /// all are.
    pub fn explain(&self) -> Option<String> {
        None
    }

    /// Says that nothing more will come; [`Client::poll`] until
    /// [`Client::has_left`].
    pub fn leave(&mut self) {}

    /// Whether every logger that can be reached has stored everything.
    pub fn has_left(&self) -> bool {
        true
    }
}
