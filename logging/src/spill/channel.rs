//! The index of the chunks of one channel on disk.

use crate::store::FileNumber;
use refrain_ring::Frontier;
use std::collections::VecDeque;

/// A chunk on disk; the entry takes 48 bytes for each 256 KiB of log.
#[derive(Clone, Debug)]
struct DiskChunk {
    sequence: u64,
    ends: Frontier,
    file: FileNumber,
}

/// The chunks of one channel that are on disk, by sequence number.
#[derive(Debug, Default)]
pub(super) struct ChannelIndex {
    chunks: VecDeque<DiskChunk>,
    /// All messages below are free, including those that are still being written.
    horizon: Frontier,
    /// The file that is being filled.
    pub current: Option<FileNumber>,
}

impl ChannelIndex {
    /// Adds a chunk that has been written; returns whether it is still needed.
    pub fn add(&mut self, sequence: u64, ends: &Frontier, file: FileNumber) -> bool {
        if ends.is_within(&self.horizon) {
            return false;
        }
        let before = |chunk: &DiskChunk| chunk.sequence < sequence;
        let chunk = DiskChunk {
            sequence,
            ends: ends.clone(),
            file,
        };
        self.chunks
            .insert(self.chunks.partition_point(before), chunk);
        true
    }

    /// Removes all chunks that end at or below `horizon` in every stream; calls `freed`
    /// with the file of each.
    pub fn trim(&mut self, horizon: &Frontier, mut freed: impl FnMut(FileNumber)) {
        self.horizon.raise(horizon);
        let horizon = &self.horizon;
        let is_free = |chunk: &mut DiskChunk| chunk.ends.is_within(horizon);
        while let Some(chunk) = self.chunks.pop_front_if(is_free) {
            freed(chunk.file);
        }
    }

    pub fn find(&self, from: &Frontier) -> Option<u64> {
        let at = self
            .chunks
            .partition_point(|chunk| chunk.ends.is_within(from));
        self.chunks.get(at).map(|chunk| chunk.sequence)
    }

    pub fn file_of(&self, sequence: u64) -> Option<FileNumber> {
        let at = self
            .chunks
            .binary_search_by_key(&sequence, |chunk| chunk.sequence);
        at.ok().map(|at| self.chunks[at].file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_ring::{Ssn, Stream};

    fn frontier(program: u64, internal: u64) -> Frontier {
        let internal = Ssn(Ssn::first(Stream(2)).0 + internal);
        Frontier::from(Ssn(program)).max(&internal.into())
    }

    // LOG-4, STREAM-3
    #[test]
    fn a_chunk_is_found_and_freed_by_every_stream() {
        let mut index = ChannelIndex::default();
        let file = FileNumber(0);
        for (sequence, ends) in [(0, (3, 0)), (1, (3, 4)), (2, (5, 4)), (3, (6, 9))] {
            assert!(index.add(sequence, &frontier(ends.0, ends.1), file));
        }
        let found = |program, internal| index.find(&frontier(program, internal));
        assert_eq!(found(0, 0), Some(0));
        assert_eq!(found(3, 0), Some(1));
        assert_eq!(found(3, 4), Some(2));
        assert_eq!(found(9, 2), Some(1));
        assert_eq!(found(6, 8), Some(3));
        assert_eq!(found(6, 9), None);
        let mut freed = 0;
        index.trim(&frontier(6, 0), |_| freed += 1);
        assert_eq!((freed, index.find(&frontier(6, 0))), (1, Some(1)));
        index.trim(&frontier(4, 4), |_| freed += 1);
        assert_eq!(freed, 3, "a horizon never goes back in a stream");
        assert!(!index.add(4, &frontier(6, 4), file), "it is free already");
    }
}
