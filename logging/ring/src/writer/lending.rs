//! Lends complete chunks of a log, to be written to disk.

use super::ChannelLog;
#[cfg(not(loom))]
use super::ChunkEntry;
use super::Place;
use crate::CHUNK_BYTES;
#[cfg(not(loom))]
use crate::{Arena, LentChunk, LoanEnd, Position};

impl ChannelLog {
    /// Sequence number of the oldest complete chunk that is neither on disk nor lent, if all its
    /// records are published, up to `posted`: the chunk that [`ChannelLog::lend`] lends.
    #[cfg(not(loom))]
    pub fn next_to_lend(&mut self, posted: Position) -> Option<u64> {
        let complete = self.sequence_end().saturating_sub(1);
        let mut sequence = self.lent_until.max(self.chunks_trimmed);
        while sequence < complete && self.entry(sequence).place != Place::Memory {
            sequence += 1;
        }
        self.lent_until = sequence;
        let end = Position((sequence + 1) * CHUNK_BYTES as u64);
        (sequence < complete && end <= posted).then_some(sequence)
    }

    /// Lends the next chunk, to be written to disk.
    #[cfg(not(loom))]
    pub fn lend(&mut self, arena: &Arena, posted: Position) -> Option<LentChunk> {
        let sequence = self.next_to_lend(posted)?;
        self.lent_until = sequence + 1;
        self.lent += 1;
        let at = (sequence - self.chunks_trimmed) as usize;
        self.chunks[at].place = Place::Lent;
        let entry = &self.chunks[at];
        let offset = arena.offset_of(entry.chunk);
        let region = arena.region().clone();
        let (used_bytes, ends) = (entry.used_bytes, entry.ends.clone());
        Some(LentChunk::new(
            region, offset, self, sequence, used_bytes, ends,
        ))
    }

    /// Takes a lent chunk back. A chunk that is still only in memory is lent again.
    ///
    /// # Panics
    /// When the chunk is of another log.
    #[cfg(not(loom))]
    pub fn take_back(&mut self, chunk: &LentChunk, end: LoanEnd) {
        let whose = (chunk.source(), chunk.destination(), chunk.incarnation());
        assert_eq!(whose, self.identity(), "a chunk of another log");
        let sequence = chunk.sequence();
        let at = (sequence - self.chunks_trimmed) as usize;
        let entry = &mut self.chunks[at];
        assert_eq!(entry.place, Place::Lent, "chunk {sequence} was not lent");
        entry.place = match end {
            LoanEnd::OnDisk => Place::Disk,
            LoanEnd::InMemory => {
                self.lent_until = self.lent_until.min(sequence);
                Place::Memory
            }
        };
        self.lent -= 1;
    }

    /// Number of chunks that are lent.
    pub fn lent_chunks(&self) -> usize {
        self.lent
    }

    #[cfg(not(loom))]
    fn entry(&self, sequence: u64) -> &ChunkEntry {
        &self.chunks[(sequence - self.chunks_trimmed) as usize]
    }
}
