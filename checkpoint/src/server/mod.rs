//! A checkpoint server: a folder of checkpoints for ranks that reach it over
//! sockets (docs/design/checkpoint-server.md).
//!
//! | module | what |
//! |---|---|
//! | [`session`] | one conversation, without its socket |
//! | `desk` | whose folder is whose |
//! | `service` | a thread for each conversation; a limited number |
//!
//! Each conversation has a thread: it waits for its socket and for the disk, and
//! nobody waits for it. A client that is slow, or gone in the middle, costs what it
//! has written so far, which never counts.

mod desk;
mod service;
pub mod session;

pub use desk::Desk;

use crate::disk::{DiskIo, FolderDisk};
use crate::error::CheckpointError;
use crate::place::PURPOSE;
use refrain_secure::{Door, Listener, ServerAddress};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use service::Service;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// Held by a server that runs.
const LOCK: &str = "lock";

/// Conversations at a time by default: each is a thread and some open files.
pub const CONVERSATIONS_MAX: usize = 256;
/// Open files of a conversation at most: its socket twice, the checkpoint's file, its
/// folder, and a ring of the kernel's to write by.
pub const FILES_PER_CONVERSATION: usize = 5;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where checkpoints are kept: made if it is not there, of one server.
    pub folder: PathBuf,
    /// Where to listen; at port 0, at one that is free.
    pub listen: Vec<ServerAddress>,
    /// How files are written.
    pub io: DiskIo,
    /// Conversations at a time: more are refused, and the clients connect again.
    pub conversations_max: usize,
}

/// Why there is no server.
#[derive(Debug, Error)]
pub enum ServerError {
    /// Another server has the folder.
    #[error("{} belongs to another checkpoint server that is running: give each a folder of its own", .0.display())]
    Locked(PathBuf),
    /// The folder cannot be used.
    #[error("making {}: {error}; allow it, or choose another folder", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// Files cannot be made there.
    #[error(transparent)]
    Disk(#[from] CheckpointError),
    /// Nobody could reach it.
    #[error("listening at {address}: {error}; choose another address")]
    Listen {
        /// The address.
        address: String,
        /// The system's words.
        error: io::Error,
    },
    /// The system fails.
    #[error("waiting for conversations: {0}")]
    Wait(#[from] io::Error),
}

/// A server that listens.
pub struct Server {
    door: Door,
    service: Arc<Service>,
    description: String,
    /// Held by being open.
    _lock: File,
}

impl Server {
    /// Opens the folder and listens; nobody is answered yet. `report` is given
    /// what goes wrong in conversations, for people.
    ///
    /// # Errors
    /// When the folder is another server's or cannot be written, or an address
    /// cannot be listened at.
    pub fn bind(
        options: &ServerOptions,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, ServerError> {
        let lock = lock(&options.folder)?;
        let disk = FolderDisk::with_io(&options.folder, options.io)?;
        let description = crate::disk::Disk::describe(&disk);
        let desk = Desk::new(Arc::new(disk));
        let listeners = options.listen.iter().map(|address| {
            Listener::bind(address).map_err(|error| ServerError::Listen {
                address: address.to_string(),
                error,
            })
        });
        let listeners = listeners.collect::<Result<_, _>>()?;
        let conversations_max = options.conversations_max;
        Ok(Self {
            door: Door::new(listeners, PURPOSE)?,
            service: Arc::new(Service::new(desk, conversations_max, Box::new(report))),
            description,
            _lock: lock,
        })
    }

    /// Where it listens, with the ports that the system chose.
    pub fn addresses(&self) -> impl Iterator<Item = &ServerAddress> {
        self.door.addresses()
    }

    /// How it writes, for people.
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// Serves until `stop` is readable or closed. Conversations that go on then
    /// are ended; a checkpoint that is being committed is, before.
    ///
    /// # Errors
    /// When the system cannot tell of conversations.
    pub fn serve_until(&mut self, stop: &impl AsFd) -> Result<(), ServerError> {
        Ok(self.service.serve_until(&mut self.door, stop.as_fd())?)
    }
}

fn lock(folder: &PathBuf) -> Result<File, ServerError> {
    let failed = |error| ServerError::Folder {
        folder: folder.clone(),
        error,
    };
    // Of the owner alone, whatever the umask; a folder that is there stays as it is.
    let mut folders = DirBuilder::new();
    let made = folders.recursive(true).mode(0o700).create(folder);
    made.map_err(failed)?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let lock = options.open(folder.join(LOCK)).map_err(failed)?;
    // One that an earlier version made could be locked by any user.
    let owner_only = Permissions::from_mode(0o600);
    lock.set_permissions(owner_only).map_err(failed)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(Errno::WOULDBLOCK) => Err(ServerError::Locked(folder.clone())),
        Err(error) => Err(failed(error.into())),
    }
}
