//! Messages between clients and a logger over a stream socket (Unix or TCP): joining,
//! commits where nothing one-sided is to be had, credits, reading out.
//!
//! A peer that sends something invalid is cut off, without effect on others.

use crate::acceptor::{Beginning, RankLog};
use crate::{Level, LoggerId};
use core::time::Duration;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_wire::Protocol;
use serde::{Deserialize, Serialize};

/// Version of the messages.
const VERSION: u8 = 4;
/// Bytes of a message, at most.
pub const FRAME_BYTES_MAX: usize = 64 << 10;

/// The protocol between clients and a logger.
pub const PROTOCOL: Protocol = Protocol {
    purpose: "refrain: event logger",
    magic: *b"RL",
    version: VERSION,
    message_bytes_max: FRAME_BYTES_MAX,
    data_bytes_max: 0,
    // Longer than the kernel's questions take, as it counts also while the other side has no
    // room.
    unacknowledged_max: Duration::from_secs(30),
};

/// How a client wants to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommitPath {
    /// By stores into its ring; its descriptor comes with the welcome, and that
    /// of an eventfd that rings the server. Only over a Unix socket.
    SharedMemory,
    /// By RMA writes into its ring.
    Libfabric,
    /// By [`ToLogger::Commit`].
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
    /// Number of the first determinant that it can still send: the logger gets
    /// earlier ones that it lacks from its other replicas.
    pub first_kept: EventIndex,
    /// Where its life begins. `None`: it is a first life, or does not know yet and asks
    /// what there is of earlier ones. Such a later life may not commit.
    pub begins: Option<Begins>,
    /// How it wants to commit.
    pub way: CommitPath,
}

/// Where a later life begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begins {
    /// Number of its first determinant.
    pub start: EventIndex,
    /// Clock of the one before that.
    pub clock_before: Clock,
    /// Which life wrote that one.
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
    /// Clock of the last one.
    pub last_clock: Clock,
    /// What has reached this level: all before `end`, and what is acknowledged
    /// later. EL-1
    pub level: Level,
    /// Where to write, for [`CommitPath::Libfabric`].
    pub remote: Option<RemoteRing>,
}

/// A ring as RMA reaches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteRing {
    /// The provider.
    pub provider: String,
    /// The endpoint's address, as `fi_getname` gave it.
    pub address: Vec<u8>,
    /// First byte of the ring's data, as the provider counts.
    pub base: u64,
    /// The key.
    pub key: u64,
}

/// From a client.
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
    /// cannot look itself.
    Drain,
    /// What is before this clock will not be requested any more: a checkpoint that covers
    /// it is stable and published. GC-1
    Trim {
        /// Determinants with at most this clock go.
        clock: u64,
    },
    /// Asks for a rank's determinants, by a reader, which sends no hello; answered with
    /// [`ToClient::Events`]. EL-5
    Read {
        /// The job.
        job: u64,
        /// The rank.
        rank: u32,
        /// From this number on …
        from: u64,
        /// … and only those with a higher clock, if one is given.
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
    /// The writer has ended: everything it wrote is to be stored, then
    /// [`ToClient::Stable`] says so.
    Leave,
}

/// What a logger has of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: u32,
    /// Its latest life that was seen.
    pub incarnation: u32,
    /// Number of the first determinant that is still there.
    pub first: u64,
    /// Clock of the one before it: for a replica that continues there. GC-1
    pub clock_before: u64,
    /// One past the number of the last.
    pub end: u64,
    /// Clock of the last.
    pub last_clock: u64,
}

/// From a logger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToClient {
    /// The answer to [`ToLogger::Hello`].
    Welcome(Welcome),
    /// An acknowledgement. GATE-3: the client checks every field.
    Stable {
        /// The logger that acknowledges.
        logger: LoggerId,
        /// Whose determinants.
        rank: u32,
        /// Of which life.
        incarnation: u32,
        /// All up to this clock …
        clock: u64,
        /// … which are those before this number …
        end: u64,
        /// … have reached this level.
        level: Level,
    },
    /// The ring is free up to this place (see [`crate::ring::Cursor`]).
    Consumed {
        /// The place.
        position: u64,
    },
    /// The requested determinants, as whole batches one behind the other.
    Events {
        /// The batches.
        batches: Vec<u8>,
        /// There is no more.
        is_last: bool,
    },
    /// The answer to [`ToLogger::List`].
    Ranks {
        /// By job and rank.
        ranks: Vec<Holding>,
    },
    /// The answer to [`ToLogger::RankLog`]; all 0 where nothing is known of the rank.
    RankLog(RankLog),
    /// The request is refused; the connection ends after it.
    Refused {
        /// The reason, for people, with what to do.
        reason: String,
    },
}

impl Hello {
    /// Where the life begins; `None`: it only asks.
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
