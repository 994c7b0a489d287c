//! Reads a log's own chunks in memory, for the rank that writes them.

use crate::writer::{CHUNK_HEADER_BYTES, ChannelLog, ChunkEntry, Place};
use crate::{Arena, CHUNK_BYTES, Frontier, Position};

/// Whether a chunk of a log is in memory.
#[derive(Debug, PartialEq, Eq)]
pub enum InMemory<'a> {
    /// The chunk is in memory, with its header and published records.
    Records {
        /// From the chunk's header to the end of the last published record.
        bytes: &'a [u8],
        /// The chunk is complete and all of its records are published.
        is_whole: bool,
    },
    /// The chunk is being written to disk, where it is sealed first: it must not be read until
    /// it is taken back.
    Lent,
    /// Its memory is freed: it is on disk, or a horizon has passed it.
    Freed,
    /// The log has not reached this chunk.
    NotYet,
}

impl ChannelLog {
    /// The published records of a chunk in memory: those before
    /// `posted`.
    pub fn in_memory<'a>(&self, arena: &'a Arena, sequence: u64, posted: Position) -> InMemory<'a> {
        let begin = Position(sequence.saturating_mul(CHUNK_BYTES as u64));
        if begin < self.trimmed() {
            return InMemory::Freed;
        }
        let Some(entry) = self.entry_of(sequence) else {
            return InMemory::NotYet;
        };
        if entry.place == Place::Lent {
            return InMemory::Lent;
        }
        let is_last = begin.0 + CHUNK_BYTES as u64 > self.tail().0;
        let used_bytes = self.used_bytes_of(sequence, entry);
        // The header was written before any record.
        let posted_bytes = posted
            .0
            .saturating_sub(begin.0)
            .max(CHUNK_HEADER_BYTES as u64);
        InMemory::Records {
            bytes: arena.region().payload(
                arena.offset_of(entry.chunk),
                used_bytes.min(usize::try_from(posted_bytes).unwrap_or(usize::MAX)),
            ),
            is_whole: !is_last && posted_bytes >= used_bytes as u64,
        }
    }

    /// Bytes of header and records of a chunk in memory.
    pub(crate) fn used_bytes_of(&self, sequence: u64, entry: &ChunkEntry) -> usize {
        let begin = sequence * CHUNK_BYTES as u64;
        match begin + CHUNK_BYTES as u64 > self.tail().0 {
            true => (self.tail().0 - begin) as usize,
            false => entry.used_bytes,
        }
    }

    /// The first chunk in memory that ends beyond `from` in some stream; otherwise the chunk
    /// being filled, where such a message would be.
    pub fn find(&self, from: &Frontier) -> u64 {
        let trimmed = self.trimmed().0 / CHUNK_BYTES as u64;
        let last = self.tail().0 / CHUNK_BYTES as u64;
        let ends_beyond = |sequence: &u64| {
            let entry = self.entry_of(*sequence);
            entry.is_some_and(|entry| !entry.ends.is_within(from))
        };
        (trimmed..last).find(ends_beyond).unwrap_or(last)
    }
}
