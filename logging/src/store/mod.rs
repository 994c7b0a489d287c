//! Writes and reads chunks: the contract between the spilling log,
//! which is pure, and disks, which are not.
//!
//! A store takes operations and gives each of them back once, as a completion,
//! in any order and at any later time. The log above it never waits inside a
//! call.
//!
//! Contract, which the conformance suite in `tests` checks on every store:
//! - Operations on one file may be reordered. The log submits nothing to a file
//!   before its `Open` has completed, no `Open` with `reuse` and no `Delete`
//!   while anything else on that file is under way, nothing after a `Delete`.
//! - A chunk that was given to `Write` is sealed (checksums) and comes back in the
//!   completion, whether the write succeeded or not. After a success, each later `Read`
//!   gives these bytes, even after this process was
//!   killed. They need not survive the loss of power.
//! - A write that the system does only in part is continued, not reported.
//! - After an error the file's bytes in that place are undefined.
//! - A store that is dropped first ends the operations under way: no memory of a chunk
//!   is read after that.

pub mod disk;
#[cfg(any(test, feature = "test-doubles"))]
pub mod faulty;
pub mod late;

#[cfg(test)]
mod tests;

use crate::segment::FileHeader;
use refrain_ring::LentChunk;
use refrain_ring::read_back::ChunkBytes;
use std::io;
use thiserror::Error;

/// The number of a segment file in the store; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u64);

/// Names a read; chosen by the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadToken(pub u64);

/// An operation of a store.
#[derive(Debug)]
pub enum Operation {
    /// Makes a file with room for all its slots and writes its header.
    Open {
        /// Its number from now on.
        file: FileNumber,
        /// The file's header.
        header: FileHeader,
        /// An unneeded file of the same length to reuse; its number becomes
        /// invalid, even if the operation fails.
        reuse: Option<FileNumber>,
    },
    /// Seals a chunk and writes it.
    Write {
        /// The file.
        file: FileNumber,
        /// The slot.
        slot: u32,
        /// The chunk.
        chunk: LentChunk,
    },
    /// Reads the chunk in a slot. The reader checks its checksums.
    Read {
        /// The file.
        file: FileNumber,
        /// The slot.
        slot: u32,
        /// Returned in the completion.
        token: ReadToken,
    },
    /// Removes a file.
    Delete {
        /// The file.
        file: FileNumber,
    },
}

/// The completion of an operation.
#[derive(Debug)]
pub enum Completion {
    /// Of [`Operation::Open`].
    Opened {
        /// The file.
        file: FileNumber,
        /// Whether the file exists.
        result: Result<(), StoreError>,
    },
    /// Of [`Operation::Write`].
    Written {
        /// The file.
        file: FileNumber,
        /// The chunk.
        chunk: LentChunk,
        /// Whether the chunk is on disk.
        result: Result<(), StoreError>,
    },
    /// Of [`Operation::Read`].
    Read {
        /// The token of the operation.
        token: ReadToken,
        /// The file.
        file: FileNumber,
        /// The bytes of the slot.
        result: Result<ChunkBytes, StoreError>,
    },
    /// Of [`Operation::Delete`].
    Deleted {
        /// The file.
        file: FileNumber,
        /// Whether the file is removed.
        result: Result<(), StoreError>,
    },
}

/// Why an operation failed.
#[derive(Debug, Error)]
#[error("{attempted}: {error}")]
pub struct StoreError {
    /// The attempted action, with the file.
    pub attempted: String,
    /// The system's error.
    pub error: io::Error,
}

impl StoreError {
    /// Whether space or quota is used up, so that a later try may succeed.
    pub fn is_lack_of_space(&self) -> bool {
        matches!(
            self.error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }
}

/// A disk for chunks; the [module](self) states the contract.
pub trait Store {
    /// Begins an operation.
    fn submit(&mut self, operation: Operation);

    /// The next completion, if there is one.
    fn poll(&mut self) -> Option<Completion>;

    /// The store's way of writing, for people, such as "io_uring, direct".
    fn describe(&self) -> String;
}
