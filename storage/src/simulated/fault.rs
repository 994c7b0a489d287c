//! Faults of the simulated disk: the operation that fails, and its error.

use rustix::io::Errno;
use std::io;

/// The operation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Listing the names.
    Names,
    /// Creating a file.
    Create,
    /// Changing a file's length, or taking room.
    Resize,
    /// A transfer to a file; a part of it is written.
    Write,
    /// A write that blocks; a part of it is written.
    WriteAt,
    /// Reading, or opening a file for reading.
    Read,
    /// Syncing a file: content that was not synced may be lost, and no later sync saves it.
    Sync,
    /// Renaming; the name stays unchanged.
    Rename,
    /// Syncing the names.
    SyncNames,
    /// Removing a file.
    Remove,
}

/// The error of a failed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The disk is broken (EIO).
    Io,
    /// The disk is full (ENOSPC).
    NoSpace,
    /// The user's quota is used up (EDQUOT).
    Quota,
    /// The disk was made read-only (EROFS).
    ReadOnly,
    /// Not allowed (EACCES).
    Forbidden,
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        Self::from(match failure {
            Failure::Io => Errno::IO,
            Failure::NoSpace => Errno::NOSPC,
            Failure::Quota => Errno::DQUOT,
            Failure::ReadOnly => Errno::ROFS,
            Failure::Forbidden => Errno::ACCESS,
        })
    }
}
