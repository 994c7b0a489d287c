//! Where chunks are written and read: the contract between the spilling log,
//! which is pure, and disks, which are not.
//!
//! A store takes operations and gives each of them back once, as a completion,
//! in any order and at any later time. The log above it never waits inside a
//! call.
//!
//! Contract, which the suite in `tests` checks on every store:
//! - Operations on one file may be reordered. The log submits nothing to a file
//!   before its `Open` has completed, no `Open` with `reuse` and no `Delete`
//!   while anything else on that file is under way, nothing after a `Delete`.
//! - A chunk that was given to `Write` is sealed (checksums) and comes back in the
//!   completion, whether the write succeeded or not. Success says: a `Read` that
//!   is submitted from now on gives these bytes, also after this process was
//!   killed. It does not say that they survive the loss of power.
//! - A write that the system cuts short is continued, not reported.
//! - After an error nothing is known of the file's bytes in that place.
//! - A store that is dropped ends what is under way first: no memory of a chunk
//!   is read after that.

pub mod disk;
#[cfg(any(test, feature = "test-doubles"))]
pub mod faulty;

#[cfg(test)]
mod tests;

use crate::segment::FileHeader;
use refrain_ring::LentChunk;
use refrain_ring::read_back::ChunkBytes;
use std::io;
use thiserror::Error;

/// A segment file as the store knows it; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u64);

/// Names a read; chosen by the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadToken(pub u64);

/// What a store is asked to do.
#[derive(Debug)]
pub enum Operation {
    /// Makes a file with room for all its slots and writes its header.
    Open {
        /// Its number from now on.
        file: FileNumber,
        /// What it is to hold.
        header: FileHeader,
        /// A file of the same length that is not needed any more, to be used
        /// again; its number is gone then, also when this fails.
        reuse: Option<FileNumber>,
    },
    /// Seals a chunk and writes it.
    Write {
        /// Where.
        file: FileNumber,
        /// In which slot.
        slot: u32,
        /// What.
        chunk: LentChunk,
    },
    /// Reads the chunk in a slot. Its checksums are for the reader to check.
    Read {
        /// Where.
        file: FileNumber,
        /// Which slot.
        slot: u32,
        /// Comes back.
        token: ReadToken,
    },
    /// Removes a file.
    Delete {
        /// Which.
        file: FileNumber,
    },
}

/// The end of an operation.
#[derive(Debug)]
pub enum Completion {
    /// Of [`Operation::Open`].
    Opened {
        /// Which file.
        file: FileNumber,
        /// Whether it is there.
        result: Result<(), StoreError>,
    },
    /// Of [`Operation::Write`].
    Written {
        /// Which file.
        file: FileNumber,
        /// The chunk.
        chunk: LentChunk,
        /// Whether it is there.
        result: Result<(), StoreError>,
    },
    /// Of [`Operation::Read`].
    Read {
        /// As given.
        token: ReadToken,
        /// Which file.
        file: FileNumber,
        /// The bytes of the slot.
        result: Result<ChunkBytes, StoreError>,
    },
    /// Of [`Operation::Delete`].
    Deleted {
        /// Which file.
        file: FileNumber,
        /// Whether it is gone.
        result: Result<(), StoreError>,
    },
}

/// Why an operation failed.
#[derive(Debug, Error)]
#[error("{attempted}: {error}")]
pub struct StoreError {
    /// What was tried, with the file.
    pub attempted: String,
    /// The system's error.
    pub error: io::Error,
}

impl StoreError {
    /// Whether room on the disk may come back: space or quota is used up.
    pub fn is_lack_of_space(&self) -> bool {
        matches!(
            self.error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }
}

/// Disks; see the [module](self) for what holds.
pub trait Store {
    /// Begins an operation.
    fn submit(&mut self, operation: Operation);

    /// The end of an operation, if one has come.
    fn poll(&mut self) -> Option<Completion>;

    /// How it writes, for people: "io_uring, direct".
    fn describe(&self) -> String;
}
