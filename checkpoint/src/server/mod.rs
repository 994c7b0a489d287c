//! A checkpoint server: a folder of checkpoints for ranks that reach it over
//! sockets (docs/design/checkpoint-server.md).
//!
//! | module | what |
//! |---|---|
//! | [`session`] | one session, without its socket |
//! | `jobs` | the folder of each job |
//! | `service` | a thread for each session; a limited number |
//!
//! Each session has a thread that waits for its socket and for the disk; no other session waits for
//! it. A client that is slow, or dies during a write, costs only the disk space of its unfinished
//! checkpoint, which never counts.

mod jobs;
mod service;
pub mod session;

pub use jobs::Jobs;

use crate::disk::Disk;
use crate::error::CheckpointError;
use crate::message::PROTOCOL;
use refrain_storage::{Io, make_private};
use refrain_wire::{Door, Listener, ServerAddress};
use service::Service;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// The lock file of the folder, which a running server holds.
const LOCK: &str = "lock";

/// Default limit of concurrent sessions: each needs a thread and some open files.
pub const SESSIONS_MAX: usize = 256;
/// Most open files of a session: its socket twice, the checkpoint's file, its folder, and an
/// io_uring.
pub const FILES_PER_SESSION: usize = 5;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The folder for checkpoints. No other server may use it. Created if it does not exist.
    pub folder: PathBuf,
    /// Addresses to listen at; port 0: any free port.
    pub listen: Vec<ServerAddress>,
    /// How files are written.
    pub io: Io,
    /// Limit of concurrent sessions. Further clients are refused, and connect again.
    pub sessions_max: usize,
}

/// Errors of a server.
#[derive(Debug, Error)]
pub enum ServerError {
    /// Another server holds the folder.
    #[error("{} belongs to another checkpoint server that is running: give each a folder of its own", .0.display())]
    Locked(PathBuf),
    /// The folder cannot be used.
    #[error("creating {}: {error}; change the permissions, or choose another folder", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Files cannot be created there.
    #[error(transparent)]
    Disk(#[from] CheckpointError),
    /// The server cannot listen at an address.
    #[error("listening at {address}: {error}; choose another address")]
    Listen {
        /// The address.
        address: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The system cannot wait for sessions.
    #[error("waiting for sessions: {0}")]
    Wait(#[from] io::Error),
}

/// A server that listens.
pub struct Server {
    door: Door,
    service: Arc<Service>,
    description: String,
    /// Holds the lock while it is open.
    _lock: File,
}

impl Server {
    /// Opens the folder and listens; answers no client yet. `report` gets log lines about failed
    /// sessions.
    ///
    /// # Errors
    /// When another server holds the folder, the folder cannot be written, or the server cannot
    /// listen at an address.
    pub fn bind(
        options: &ServerOptions,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, ServerError> {
        let lock = lock(&options.folder)?;
        let disk = Disk::with_io(&options.folder, options.io)?;
        let description = disk.describe().to_owned();
        let jobs = Jobs::new(disk);
        let listeners = options.listen.iter().map(|address| {
            Listener::bind(address).map_err(|error| ServerError::Listen {
                address: address.to_string(),
                error,
            })
        });
        let listeners = listeners.collect::<Result<_, _>>()?;
        let sessions_max = options.sessions_max;
        Ok(Self {
            door: Door::new(listeners, &PROTOCOL)?,
            service: Arc::new(Service::new(jobs, sessions_max, Box::new(report))),
            description,
            _lock: lock,
        })
    }

    /// The addresses of the server, with the ports that the system chose.
    pub fn addresses(&self) -> impl Iterator<Item = &ServerAddress> {
        self.door.addresses()
    }

    /// How files are written, for messages.
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// Serves until `stop` is readable or closed. Then it ends the sessions; a commit in progress
    /// ends first.
    ///
    /// # Errors
    /// When the system cannot wait for sessions.
    pub fn serve_until(&mut self, stop: &impl AsFd) -> Result<(), ServerError> {
        Ok(self.service.serve_until(&mut self.door, stop.as_fd())?)
    }
}

fn lock(folder: &Path) -> Result<File, ServerError> {
    let made = make_private(folder);
    made.and_then(|()| refrain_storage::lock(&folder.join(LOCK)))
        .map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => ServerError::Locked(folder.to_owned()),
            _ => ServerError::Folder {
                folder: folder.to_owned(),
                error,
            },
        })
}
