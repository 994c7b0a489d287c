//! Where the chunks of one channel are.

use crate::store::FileNumber;
use refrain_ring::Ssn;
use std::collections::VecDeque;

/// A chunk on disk: 24 bytes for each 256 KiB of log.
#[derive(Clone, Copy, Debug)]
struct DiskChunk {
    sequence: u64,
    ssn_end: Ssn,
    file: FileNumber,
}

/// The chunks of one channel that are on disk, by sequence number.
#[derive(Debug, Default)]
pub(super) struct ChannelIndex {
    chunks: VecDeque<DiskChunk>,
    /// All messages below are free, also those that are still being written.
    horizon: Ssn,
    /// The file that is being filled.
    pub current: Option<FileNumber>,
}

impl ChannelIndex {
    /// A chunk has been written. Whether it is needed still.
    pub fn add(&mut self, sequence: u64, ssn_end: Ssn, file: FileNumber) -> bool {
        if ssn_end <= self.horizon {
            return false;
        }
        let at = self
            .chunks
            .partition_point(|chunk| chunk.sequence < sequence);
        self.chunks.insert(
            at,
            DiskChunk {
                sequence,
                ssn_end,
                file,
            },
        );
        true
    }

    /// Forgets all chunks that end at or below `horizon`; `freed` is told the
    /// file of each.
    pub fn trim(&mut self, horizon: Ssn, mut freed: impl FnMut(FileNumber)) {
        self.horizon = self.horizon.max(horizon);
        while let Some(chunk) = self.chunks.front().filter(|chunk| chunk.ssn_end <= horizon) {
            freed(chunk.file);
            self.chunks.pop_front();
        }
    }

    pub fn find(&self, ssn: Ssn) -> Option<u64> {
        let at = self.chunks.partition_point(|chunk| chunk.ssn_end <= ssn);
        self.chunks.get(at).map(|chunk| chunk.sequence)
    }

    pub fn file_of(&self, sequence: u64) -> Option<FileNumber> {
        let at = self
            .chunks
            .binary_search_by_key(&sequence, |chunk| chunk.sequence);
        at.ok().map(|at| self.chunks[at].file)
    }
}
