//! Settings of a server, and its errors.

use crate::client::ServerAddress;
use crate::logbook::{LogbookOptions, StoreError};
use crate::{Level, LoggerId};
use refrain_storage::Io;
use refrain_verbs::PortChoice;
use std::path::PathBuf;
use thiserror::Error;

/// Limits of a server. Requests beyond them are refused, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Ranks of all jobs together: the maximum that [`crate::message::ToClient::Ranks`]
    /// can name.
    pub ranks: usize,
    /// Unread bytes of answers to one client.
    pub unread_bytes: usize,
}

/// Maximum number of ranks, of all jobs together, that a logger serves. One
/// [`crate::message::ToClient::Ranks`] holds the numbers of all of them.
pub const RANKS_MAX: usize = 1024;

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2048,
            ranks: RANKS_MAX,
            unread_bytes: 1 << 20,
        }
    }
}

/// Settings of one-sided commits from other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteOptions {
    /// libfabric's provider, or [`VERBS`](crate::remote::VERBS).
    pub provider: String,
    /// The file of libfabric or libibverbs; by default the installed one.
    pub library: Option<PathBuf>,
    /// The device and port that verbs uses.
    pub port: PortChoice,
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Folder of its files.
    pub folder: PathBuf,
    /// Folder of its rings, if another one: used by this logger alone, and kept when its
    /// process ends. Devices of verbs need a folder in memory (docs/design/event-remote.md).
    pub rings: Option<PathBuf>,
    /// Addresses on which it listens.
    pub listen: Vec<ServerAddress>,
    /// The logger's number.
    pub logger: LoggerId,
    /// The level that it acknowledges. EL-1
    pub level: Level,
    /// The other replicas of its shard.
    pub peers: Vec<ServerAddress>,
    /// I/O engine for its files.
    pub io: Io,
    /// Whether it has run before: then missing files are an error. EL-3
    pub continues: bool,
    /// Length of a file in bytes.
    pub segment_bytes: u64,
    /// Its limits.
    pub limits: Limits,
    /// Settings of one-sided commits from other hosts; `None`: not offered.
    pub remote: Option<RemoteOptions>,
}

impl ServerOptions {
    /// Settings for one logger in one folder; defaults for the rest.
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
    /// The server cannot listen on an address.
    #[error("listening on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The files do not work.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A system call failed.
    #[error("{attempted}: {error}")]
    System {
        /// The attempted action.
        attempted: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}
