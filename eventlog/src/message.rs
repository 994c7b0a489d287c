//! Messages between clients and a logger over a stream socket (Unix or TCP): joining,
//! commits where no one-sided path works, credits, reading.
//!
//! The logger closes the connection of a peer that sends something invalid; other
//! connections are not affected.

use crate::acceptor::{Beginning, RankLog};
use crate::{Level, LoggerId};
use core::time::Duration;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_wire::Protocol;
use serde::{Deserialize, Serialize};

/// Version of the messages.
const VERSION: u8 = 4;
/// Maximum length of a message in bytes.
pub const FRAME_BYTES_MAX: usize = 64 << 10;

/// The protocol between clients and a logger.
pub const PROTOCOL: Protocol = Protocol {
    purpose: "refrain: event logger",
    magic: *b"RL",
    version: VERSION,
    message_bytes_max: FRAME_BYTES_MAX,
    data_bytes_max: 0,
    // Longer than the kernel's keepalive probes take, because it also counts the time in which
    // the other side has no room.
    unacknowledged_max: Duration::from_secs(30),
};

/// The path by which a client commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommitPath {
    /// Stores into its ring. The welcome carries the descriptors of the ring and of an
    /// eventfd that wakes the server. Only over a Unix socket.
    SharedMemory,
    /// RMA writes into its ring.
    Libfabric,
    /// [`ToLogger::Commit`] messages.
    Messages,
}

/// A client joins as the writer of one rank's events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: Rank,
    /// Its incarnation; the hello fences earlier ones.
    pub incarnation: Incarnation,
    /// Number of the first determinant that the client can still send: the logger gets
    /// earlier ones that it lacks from the other replicas of its shard.
    pub first_kept: EventIndex,
    /// Where its life begins. `None`: a first life, or a later life that first reads the
    /// determinants of earlier ones; such a later life may not commit.
    pub begins: Option<Begins>,
    /// Its commit path.
    pub way: CommitPath,
}

/// Where a later life begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begins {
    /// Number of the life's first determinant.
    pub start: EventIndex,
    /// Clock of the determinant before `start`.
    pub clock_before: Clock,
    /// Incarnation that wrote the determinant before `start`.
    pub follows: Incarnation,
}

/// The answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The logger that answers. GATE-3
    pub logger: LoggerId,
    /// One past the last determinant of the rank that the logger has; the client
    /// continues there.
    pub end: EventIndex,
    /// Clock of the determinant before `end`.
    pub last_clock: Clock,
    /// Level that all determinants before `end`, and all that are acknowledged later, have
    /// reached. EL-1
    pub level: Level,
    /// The ring to write into, for [`CommitPath::Libfabric`].
    pub remote: Option<RemoteRing>,
}

/// A ring that is written by RMA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteRing {
    /// The provider.
    pub provider: String,
    /// The endpoint's address, as `fi_getname` gave it.
    pub address: Vec<u8>,
    /// Address of the first byte of the ring's data, as the provider counts.
    pub base: u64,
    /// The key for remote access to it.
    pub key: u64,
}

/// A message from a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToLogger {
    /// The first message of a writer; answered with [`ToClient::Welcome`].
    Hello(Hello),
    /// A batch, for [`CommitPath::Messages`]; answered with [`ToClient::Stable`] once
    /// it has reached the level.
    Commit {
        /// The batch.
        batch: Vec<u8>,
    },
    /// The ring is filling up; answered with [`ToClient::Consumed`] where the client
    /// cannot see it.
    Drain,
    /// Determinants up to this clock are not requested again: a checkpoint that covers
    /// them is stable and published. GC-1
    Trim {
        /// Determinants with at most this clock may be removed.
        clock: u64,
    },
    /// A reader, which sends no hello, requests a rank's determinants; answered with
    /// [`ToClient::Events`]. EL-5
    Read {
        /// The job.
        job: u64,
        /// The rank.
        rank: u32,
        /// Number of the first determinant to send.
        from: u64,
        /// Only determinants with a higher clock are sent, if given.
        after_clock: Option<u64>,
    },
    /// Asks for the list of ranks; answered with [`ToClient::Ranks`].
    List,
    /// Asks for the description of a rank's log, to compare it with another; answered
    /// with [`ToClient::RankLog`]. EL-3
    RankLog {
        /// The job.
        job: u64,
        /// The rank.
        rank: u32,
    },
    /// The writer has ended: the logger stores everything that it wrote, then answers
    /// with [`ToClient::Stable`].
    Leave,
}

/// The determinants of one rank that a logger has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: u32,
    /// Its latest incarnation that the logger has seen.
    pub incarnation: u32,
    /// Number of the first determinant that is still kept.
    pub first: u64,
    /// Clock of the determinant before `first`: a replica that copies the log needs it. GC-1
    pub clock_before: u64,
    /// One past the number of the last determinant.
    pub end: u64,
    /// Clock of the last determinant.
    pub last_clock: u64,
}

/// A message from a logger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToClient {
    /// The answer to [`ToLogger::Hello`].
    Welcome(Welcome),
    /// An acknowledgement. GATE-3: the client checks every field.
    Stable {
        /// The logger that acknowledges.
        logger: LoggerId,
        /// The rank whose determinants are acknowledged.
        rank: u32,
        /// The incarnation that wrote them.
        incarnation: u32,
        /// Clock of the last determinant acknowledged.
        clock: u64,
        /// One past the number of the last determinant acknowledged.
        end: u64,
        /// Level that all determinants before `end` have reached.
        level: Level,
    },
    /// The ring is free up to this position (see [`crate::ring::Cursor`]).
    Consumed {
        /// The position.
        position: u64,
    },
    /// The requested determinants, as consecutive whole batches.
    Events {
        /// The batches.
        batches: Vec<u8>,
        /// No more batches follow.
        is_last: bool,
    },
    /// The answer to [`ToLogger::List`].
    Ranks {
        /// One entry per job and rank.
        ranks: Vec<Holding>,
    },
    /// The answer to [`ToLogger::RankLog`]; all fields are 0 for an unknown rank.
    RankLog(RankLog),
    /// The request is refused; the connection ends after it.
    Refused {
        /// The reason, for people, with what to do.
        reason: String,
    },
}

impl Hello {
    /// Where the life begins; `None` if the client joins only to ask.
    pub fn beginning(&self) -> Option<Beginning> {
        let begins = match self.incarnation {
            // A first life has nothing before it.
            Incarnation(0) => Begins::default(),
            _ => self.begins?,
        };
        Some(Beginning {
            incarnation: self.incarnation,
            start: begins.start,
            clock_before: begins.clock_before,
            follows: begins.follows,
            first_kept: self.first_kept,
        })
    }
}
