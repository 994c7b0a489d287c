//! Options of a client: its loggers and how it commits.

use crate::Level;
use crate::message::CommitPath;
use core::time::Duration;
use refrain_ring::{Incarnation, Rank};
use refrain_verbs::PortChoice;
use refrain_wire::ServerAddress;

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The replicas of its shard.
    pub loggers: Vec<ServerAddress>,
    /// Number of loggers that make a commit stable (1 to all).
    pub quorum: usize,
    /// The level that a commit must reach at each of them. EL-1
    pub level: Level,
    /// The commit path; `None`: shared memory where the address allows it, else
    /// messages.
    pub way: Option<CommitPath>,
    /// Maximum wait of [`Client::connect`](super::Client::connect) for a quorum.
    pub connect_wait: Duration,
    /// The file of libfabric, for [`CommitPath::Libfabric`].
    pub libfabric: Option<String>,
    /// The file of libibverbs, for [`CommitPath::Libfabric`] by
    /// [`VERBS`](crate::remote::VERBS).
    pub libibverbs: Option<String>,
    /// The provider, for [`CommitPath::Libfabric`]: one of libfabric, or
    /// [`VERBS`](crate::remote::VERBS).
    pub provider: Option<String>,
    /// The device and port that verbs uses.
    pub verbs_port: PortChoice,
}
