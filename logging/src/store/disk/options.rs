//! Options of a [`DiskStore`](super::DiskStore), and errors of its start.

use refrain_storage::Io;
use rustix::thread::CpuSet;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Settings of a store on disk.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Directory of its files.
    pub directory: PathBuf,
    /// Prefix of their names.
    pub file_prefix: String,
    /// The job that chunks are sealed with.
    pub job: u64,
    /// I/O engine. `Auto` is plain where io_uring is not allowed, and `Thread` is
    /// `Plain`: the store has a thread anyway.
    pub engine: Io,
    /// Maximum number of concurrent writes and reads: 1 to 1024.
    pub under_way_max: usize,
    /// Maximum number of files that stay open without an operation under way.
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

/// Why a store cannot be made, and what to do.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct DiskError(pub(super) String);

impl DiskError {
    /// Opening the directory failed.
    pub(super) fn of_directory(directory: &Path, error: &io::Error) -> Self {
        let path = directory.display();
        Self(match error.kind() {
            io::ErrorKind::NotFound => {
                format!("the spill directory {path} does not exist: make it, or choose another")
            }
            io::ErrorKind::NotADirectory => {
                format!("{path} is not a directory: choose another for spilling")
            }
            _ => return Self::not_writable(directory, error),
        })
    }

    fn not_writable(directory: &Path, error: &io::Error) -> Self {
        Self(format!(
            "no file can be made in the spill directory {}: {error}; allow writing there, or choose another",
            directory.display()
        ))
    }

    /// Writing a first file failed.
    pub(super) fn of_probe(directory: &Path, error: &io::Error) -> Self {
        let path = directory.display();
        Self(match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                return Self::not_writable(directory, error);
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                format!(
                    "no room in the spill directory {path}: {error}; free disk space, or choose another directory"
                )
            }
            _ => format!(
                "writing a first file in the spill directory {path}: {error}; choose another"
            ),
        })
    }

    pub(super) fn of_uring(error: io::Error) -> Self {
        Self(format!(
            "io_uring cannot be used here: {error}; choose plain writes"
        ))
    }

    pub(super) fn of_cores(error: impl Display) -> Self {
        Self(format!(
            "the thread that writes the log cannot run on the chosen cores: {error}; choose others"
        ))
    }

    pub(super) fn of_thread(error: impl Display) -> Self {
        Self(format!(
            "no thread to write the log: {error}; raise the limits of processes and open files"
        ))
    }
}
