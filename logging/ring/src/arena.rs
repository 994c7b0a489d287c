//! The [`Arena`]: one rank's log memory, divided into chunks.
//!
//! Channels take chunks and give them back. The chunk freed last is taken
//! first, so that a channel that is read as fast as it is written reuses a
//! few chunks that stay in the cache. Memory is committed by extents when
//! it is first needed.

use crate::Region;
#[cfg(not(loom))]
use crate::{RecordHeader, Reference};
use core::cell::RefCell;
use core::fmt;
use std::io;
use std::rc::Rc;
use thiserror::Error;

/// Bytes of a chunk: the unit in which log memory is taken and freed.
#[cfg(not(loom))]
pub const CHUNK_BYTES: usize = 256 << 10;
/// Small under loom: a header, two records and a link.
#[cfg(loom)]
pub const CHUNK_BYTES: usize = 256;

/// Chunks that are committed together: 2 MiB, a huge page.
const EXTENT_CHUNKS: u32 = if CHUNK_BYTES >= 2 << 20 {
    1
} else {
    ((2 << 20) / CHUNK_BYTES) as u32
};

/// Number of a chunk in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub u32);

/// Why no chunk could be taken.
#[derive(Debug, Error)]
pub enum ArenaFull {
    /// The memory budget is in use.
    #[error("all {budget_bytes} bytes of log memory are in use")]
    Budget {
        /// The arena's size.
        budget_bytes: u64,
    },
    /// The system has no memory for a further extent.
    #[error("no memory for the log after {committed_bytes} bytes: {error}")]
    Memory {
        /// Bytes committed so far.
        committed_bytes: u64,
        /// The system's error.
        error: io::Error,
    },
}

/// Makes a range of the region usable: `(offset, bytes)`.
pub type Commit = Box<dyn FnMut(usize, usize) -> io::Result<()>>;

type Returned = Rc<RefCell<Vec<ChunkId>>>;

/// A chunk that returns to its arena when this is dropped.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct BorrowedChunk {
    pub(crate) chunk: ChunkId,
    returned: Returned,
}

#[cfg(not(loom))]
impl Drop for BorrowedChunk {
    fn drop(&mut self) {
        self.returned.borrow_mut().push(self.chunk);
    }
}

/// One rank's log memory.
pub struct Arena {
    region: Region,
    first_chunk_offset: usize,
    chunks: u32,
    committed: u32,
    /// Chunks that are committed together.
    extent_chunks: u32,
    free: Vec<ChunkId>,
    /// Borrowed chunks that were given back.
    returned: Returned,
    /// Maximum number of chunks taken at the same time.
    taken_most: u32,
    commit: Commit,
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("chunks", &self.chunks)
            .field("committed", &self.committed)
            .field("free", &self.free.len())
            .finish_non_exhaustive()
    }
}

impl Arena {
    /// An arena in `region` from `first_chunk_offset` to its end, whose memory
    /// is made usable by `commit` when it is first needed.
    ///
    /// # Panics
    /// When the offset is not on a cache line or beyond the region.
    pub fn new(region: Region, first_chunk_offset: usize, commit: Commit) -> Self {
        assert!(first_chunk_offset.is_multiple_of(64) && first_chunk_offset <= region.bytes());
        let chunks =
            u32::try_from((region.bytes() - first_chunk_offset) / CHUNK_BYTES).unwrap_or(u32::MAX);
        Self {
            region,
            first_chunk_offset,
            chunks,
            committed: 0,
            extent_chunks: EXTENT_CHUNKS,
            free: Vec::with_capacity(chunks as usize),
            returned: Returned::default(),
            taken_most: 0,
            commit,
        }
    }

    /// Commits each chunk alone: for many ranks on a host, of which each needs few chunks.
    #[must_use]
    pub fn by_chunks(mut self) -> Self {
        self.extent_chunks = 1;
        self
    }

    /// An arena in memory of this process alone, for fabrics that copy.
    pub fn heap(budget_bytes: usize) -> Self {
        Self::new(
            Region::heap(budget_bytes.next_multiple_of(CHUNK_BYTES)),
            0,
            Box::new(|_, _| Ok(())),
        )
    }

    /// The memory that the chunks lie in.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Bytes that channels hold.
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.taken_chunks()) * CHUNK_BYTES as u64
    }

    /// Maximum number of bytes that channels have held at the same time.
    pub fn used_bytes_peak(&self) -> u64 {
        u64::from(self.taken_most) * CHUNK_BYTES as u64
    }

    /// Maximum number of bytes that channels can hold.
    pub fn budget_bytes(&self) -> u64 {
        u64::from(self.chunks) * CHUNK_BYTES as u64
    }

    /// Commits all memory now.
    ///
    /// # Errors
    /// When the system has not enough memory.
    pub fn commit_all(&mut self) -> Result<(), ArenaFull> {
        while self.committed < self.chunks {
            self.commit_extent()?;
        }
        Ok(())
    }

    fn taken_chunks(&self) -> u32 {
        let free = self.free.len() + self.returned.borrow().len();
        self.committed - free as u32
    }

    /// Takes a chunk: the one freed last, or else a new one.
    ///
    /// # Errors
    /// When the budget or the system's memory is exhausted.
    pub(crate) fn take(&mut self) -> Result<ChunkId, ArenaFull> {
        if self.free.is_empty() {
            self.free.append(&mut self.returned.borrow_mut());
        }
        if self.free.is_empty() {
            self.commit_extent()?;
        }
        let taken = self.free.pop().ok_or(ArenaFull::Budget {
            budget_bytes: self.budget_bytes(),
        })?;
        self.taken_most = self.taken_most.max(self.taken_chunks());
        Ok(taken)
    }

    /// Takes a chunk that returns to the arena when dropped.
    #[cfg(not(loom))]
    pub(crate) fn borrow(&mut self) -> Result<BorrowedChunk, ArenaFull> {
        Ok(BorrowedChunk {
            chunk: self.take()?,
            returned: Rc::clone(&self.returned),
        })
    }

    /// Gives back a chunk that no reader reads any more.
    pub(crate) fn give_back(&mut self, chunk: ChunkId) {
        debug_assert!(!self.free.contains(&chunk), "chunk {chunk:?} freed twice");
        self.free.push(chunk);
    }

    /// Offset of a chunk in the region.
    #[inline]
    pub(crate) fn offset_of(&self, chunk: ChunkId) -> usize {
        self.first_chunk_offset + chunk.0 as usize * CHUNK_BYTES
    }

    /// Payload to which a record of this rank refers; `None` if it was freed. LOG-6
    #[cfg(not(loom))]
    pub(crate) fn shared(&self, reference: &Reference, record: &RecordHeader) -> Option<&[u8]> {
        let of = (record.source, record.incarnation);
        let is_inside = reference.chunk.0 < self.chunks;
        let at = is_inside.then(|| reference.find(&self.region, self.first_chunk_offset, of))??;
        Some(self.region.payload(at, reference.bytes as usize))
    }

    #[cold]
    fn commit_extent(&mut self) -> Result<(), ArenaFull> {
        let end = (self.committed + self.extent_chunks).min(self.chunks);
        if end == self.committed {
            return Err(ArenaFull::Budget {
                budget_bytes: self.budget_bytes(),
            });
        }
        let offset = self.offset_of(ChunkId(self.committed));
        let bytes = (end - self.committed) as usize * CHUNK_BYTES;
        (self.commit)(offset, bytes).map_err(|error| ArenaFull::Memory {
            committed_bytes: u64::from(self.committed) * CHUNK_BYTES as u64,
            error,
        })?;
        self.free
            .splice(0..0, (self.committed..end).rev().map(ChunkId));
        self.committed = end;
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_what_was_taken_at_the_same_time() {
        let mut arena = Arena::heap(4 * CHUNK_BYTES);
        arena.commit_all().expect("it is there");
        assert_eq!(arena.used_bytes_peak(), 0, "committed is not taken");
        let first = arena.take().expect("free");
        arena.give_back(first);
        let _ = arena.take().expect("free");
        let second = arena.take().expect("free");
        arena.give_back(second);
        assert_eq!(arena.used_bytes_peak(), 2 * CHUNK_BYTES as u64);
        assert_eq!(arena.used_bytes(), CHUNK_BYTES as u64);
    }

    #[test]
    fn memory_is_committed_by_extents_or_by_chunks() {
        for (by_chunks, expected) in [(false, EXTENT_CHUNKS as usize), (true, 1)] {
            let committed = Rc::new(RefCell::new(0));
            let note = Rc::clone(&committed);
            let region = Region::heap(2 * EXTENT_CHUNKS as usize * CHUNK_BYTES);
            let commit = move |_, bytes| {
                *note.borrow_mut() += bytes;
                Ok(())
            };
            let arena = Arena::new(region, 0, Box::new(commit));
            let mut arena = match by_chunks {
                true => arena.by_chunks(),
                false => arena,
            };
            arena.take().expect("free");
            assert_eq!(*committed.borrow(), expected * CHUNK_BYTES);
        }
    }

    #[test]
    fn a_borrowed_chunk_comes_back_by_itself() {
        let mut arena = Arena::heap(2 * CHUNK_BYTES);
        let kept = arena.borrow().expect("free");
        let dropped = arena.borrow().expect("free");
        arena.take().expect_err("both are taken");
        let again = dropped.chunk;
        drop(dropped);
        assert_eq!(arena.used_bytes(), CHUNK_BYTES as u64);
        assert_eq!(arena.take().expect("it came back"), again);
        arena.take().expect_err("both are taken again");
        drop(kept);
        assert_eq!(arena.used_bytes(), CHUNK_BYTES as u64);
    }
}
