//! Settings of a server, and its errors.

use crate::client::ServerAddress;
use crate::logbook::{LogbookOptions, StoreError};
use crate::{Level, LoggerId};
use refrain_storage::Io;
use refrain_verbs::PortChoice;
use std::path::PathBuf;
use thiserror::Error;

/// Limits of a server. More is refused, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Ranks, of all jobs together: what [`crate::message::ToClient::Ranks`]
    /// can name.
    pub ranks: usize,
    /// Bytes of answers that one client has not read.
    pub unread_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2048,
            ranks: 1024,
            unread_bytes: 1 << 20,
        }
    }
}

/// How clients of other hosts may write into their rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteOptions {
    /// libfabric's provider, or [`VERBS`](crate::remote::VERBS).
    pub provider: String,
    /// The file of libfabric or libibverbs; by default the installed one.
    pub library: Option<PathBuf>,
    /// Which port of which device is used by verbs.
    pub port: PortChoice,
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where its files lie.
    pub folder: PathBuf,
    /// Where its rings lie, if not there: a folder of its own, which outlives its
    /// process. Devices of verbs need one in memory (docs/design/event-remote.md).
    pub rings: Option<PathBuf>,
    /// Where it listens.
    pub listen: Vec<ServerAddress>,
    /// The logger's number.
    pub logger: LoggerId,
    /// What it acknowledges. EL-1
    pub level: Level,
    /// The other replicas of its shard.
    pub peers: Vec<ServerAddress>,
    /// How it writes its files.
    pub io: Io,
    /// Whether it has run before: then it is an error that its files are gone. EL-3
    pub continues: bool,
    /// Bytes of a file.
    pub segment_bytes: u64,
    /// Its limits.
    pub limits: Limits,
    /// Whether it offers one-sided commits to other hosts.
    pub remote: Option<RemoteOptions>,
}

impl ServerOptions {
    /// For one logger in one folder; the rest as is best.
    pub fn new(folder: PathBuf, logger: LoggerId, level: Level) -> Self {
        Self {
            folder,
            rings: None,
            listen: Vec::new(),
            logger,
            level,
            peers: Vec::new(),
            io: Io::Auto,
            continues: false,
            segment_bytes: LogbookOptions::SEGMENT_BYTES,
            limits: Limits::default(),
            remote: None,
        }
    }
}

/// Why a server cannot start, or cannot continue.
#[derive(Debug, Error)]
pub enum ServerError {
    /// It cannot listen there.
    #[error("listening on {address}: {error}")]
    Listen {
        /// Where.
        address: String,
        /// Why not.
        error: std::io::Error,
    },
    /// Its files do not work.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system refused.
    #[error("{attempted}: {error}")]
    System {
        /// What was attempted.
        attempted: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
}
