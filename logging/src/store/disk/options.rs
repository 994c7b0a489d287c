//! How a [`DiskStore`](super::DiskStore) is to be, and why there is none.

use refrain_storage::Io;
use rustix::thread::CpuSet;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Settings of a store on disk.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Where its files are made.
    pub directory: PathBuf,
    /// What their names begin with.
    pub file_prefix: String,
    /// The job that chunks are sealed with.
    pub job: u64,
    /// How bytes are moved. `Auto` is plain where io_uring is not allowed, and `Thread` is
    /// `Plain`: the store has a thread anyway.
    pub engine: Io,
    /// Writes and reads under way at once, at most: 1 to 1024.
    pub under_way_max: usize,
    /// Files held open at once while nothing is under way on them, at most.
    pub descriptors_max: usize,
    /// The cores that the store's thread may run on; `None`: those of the thread
    /// that makes the store.
    pub cores: Option<CpuSet>,
}

impl DiskOptions {
    /// The usual settings.
    pub fn new(directory: impl Into<PathBuf>, file_prefix: impl Into<String>, job: u64) -> Self {
        Self {
            directory: directory.into(),
            file_prefix: file_prefix.into(),
            job,
            engine: Io::Auto,
            under_way_max: 16,
            descriptors_max: 64,
            cores: None,
        }
    }
}

/// Why there is no store.
#[derive(Debug, Error)]
pub enum DiskError {
    /// Nothing there.
    #[error("the spill directory {} does not exist: make it, or choose another", .0.display())]
    Missing(PathBuf),
    /// Something else there.
    #[error("{} is not a directory: choose another for spilling", .0.display())]
    NotADirectory(PathBuf),
    /// The prefix would lead elsewhere.
    #[error("{0:?} is no beginning of a file name: it must not contain `/`")]
    Prefix(String),
    /// No file can be made there.
    #[error("no file can be made in the spill directory {}: {error}; allow writing there, or choose another", .directory.display())]
    NotWritable {
        /// The directory.
        directory: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// Not even a block fits.
    #[error("no room in the spill directory {}: {error}; free some, or choose another", .directory.display())]
    NoRoom {
        /// The directory.
        directory: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// Another error on the first file.
    #[error("writing a first file in the spill directory {}: {error}; choose another", .directory.display())]
    Probe {
        /// The directory.
        directory: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// io_uring was demanded.
    #[error("io_uring cannot be used here: {0}; choose plain writes")]
    Uring(#[source] io::Error),
    /// The cores are not this process's.
    #[error("the thread that writes the log cannot run on the chosen cores: {0}; choose others")]
    Cores(#[source] io::Error),
    /// No thread, or none of the means to wake it.
    #[error("no thread to write the log: {0}; raise the limits of processes and open files")]
    Thread(#[source] io::Error),
}

impl DiskError {
    /// Of opening a directory.
    pub(super) fn of_directory(directory: &Path, error: io::Error) -> Self {
        let directory = directory.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing(directory),
            io::ErrorKind::NotADirectory => Self::NotADirectory(directory),
            _ => Self::NotWritable { directory, error },
        }
    }

    /// Of writing a first file.
    pub(super) fn of_probe(directory: &Path, error: io::Error) -> Self {
        let directory = directory.to_owned();
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NotWritable { directory, error }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoRoom { directory, error }
            }
            _ => Self::Probe { directory, error },
        }
    }
}
