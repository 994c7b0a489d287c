//! The interface of the engine to the disk under its log.
//!
//! The engine decides *when* a chunk leaves memory; the implementation decides where it goes, and
//! whether the disk is full or broken. Implementations live above this crate. No call blocks.

use refrain_ring::read_back::ChunkBytes;
use refrain_ring::{Frontier, LentChunk, LoanEnd, Rank};

/// The disk under a rank's logs. LOG-2, LOG-3
pub trait Spill {
    /// Whether the next chunk, `sequence` of the channel to `destination`, would be taken now.
    fn takes(&mut self, destination: Rank, sequence: u64) -> bool;

    /// Takes a chunk to be written. [`Spill::poll`] returns it.
    fn put(&mut self, chunk: LentChunk);

    /// The next event since the last call, if there is one.
    fn poll(&mut self) -> Option<SpillEvent>;

    /// Number of chunks and reads that have not come back.
    fn under_way(&self) -> usize;

    /// Frees all messages of the channel below `horizon`. LOG-4
    fn trim(&mut self, destination: Rank, horizon: &Frontier);

    /// The chunk on disk with which a reader of all messages from `from` on has to begin; `None`:
    /// none of these messages is on disk.
    fn find(&self, destination: Rank, from: &Frontier) -> Option<u64>;

    /// Begins to read a chunk, and returns the token of the read; `None` if the chunk is not on
    /// disk.
    fn read(&mut self, destination: Rank, sequence: u64) -> Option<u64>;

    /// Which file a chunk is in, for messages to the user; `None` if that is not known.
    fn place(&self, _destination: Rank, _sequence: u64) -> Option<String> {
        None
    }

    /// Bytes of complete chunks that stay in memory before writing begins.
    fn after_bytes(&self) -> u64;

    /// Bytes on disk that are not freed.
    fn held_bytes(&self) -> u64;

    /// Why no chunk is taken, and how much is on disk, for messages to the user.
    fn explain(&self) -> String;
}

/// An event of a [`Spill`].
pub enum SpillEvent {
    /// A chunk comes back.
    Returned(LentChunk, LoanEnd),
    /// A read has ended.
    Read {
        /// The token that [`Spill::read`] returned.
        token: u64,
        /// The chunk's bytes, or why the read failed.
        bytes: Result<ChunkBytes, String>,
    },
}

impl core::fmt::Debug for SpillEvent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Returned(chunk, end) => {
                f.debug_tuple("Returned").field(chunk).field(end).finish()
            }
            Self::Read { token, .. } => f.debug_struct("Read").field("token", token).finish(),
        }
    }
}
