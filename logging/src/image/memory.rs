//! The memory of a dead rank, mapped by its reader.

use super::LogKey;
use super::checked::header_in_memory;
use super::index::{ChunkCopy, CopyPlace};
use crate::segment::Channel;
use core::ops::Range;
use refrain_ring::chunk::CHUNK_HEAD_BYTES;
use refrain_ring::{CHUNK_BYTES, ChunkId, Incarnation, NO_DESTINATION, Rank, Region};

/// The log memory of one life of a rank. The rank must be dead: later writes
/// would be read as damage, or missed.
#[derive(Clone, Debug)]
pub struct RankMemory {
    /// The memory with the arena.
    pub region: Region,
    /// Offsets in the region at which the chunks begin and end. Chunks that were never
    /// written need not be in it.
    pub arena: Range<usize>,
    /// The job.
    pub job: u64,
    /// The rank.
    pub source: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

impl RankMemory {
    fn chunks(&self) -> u32 {
        let end = self.arena.end.min(self.region.bytes());
        let bytes = end.saturating_sub(self.arena.start);
        u32::try_from(bytes / CHUNK_BYTES).unwrap_or(u32::MAX)
    }

    /// Passes every chunk with a header of this rank's logs to `found`.
    pub(super) fn each_chunk(&self, mut found: impl FnMut(LogKey, ChunkCopy)) {
        for chunk in (0..self.chunks()).map(ChunkId) {
            let mut head = [0; CHUNK_HEAD_BYTES];
            if !self.copy(chunk, &mut head) {
                return;
            }
            let Some(header) = header_in_memory(&head) else {
                continue;
            };
            // Shared payload is read through records that refer to it.
            let is_shared = header.destination == NO_DESTINATION;
            let is_own = !is_shared
                && (header.source, header.incarnation) == (self.source, self.incarnation)
                && header.seal.is_none_or(|seal| seal.job == self.job)
                && header.sequence < u64::MAX / CHUNK_BYTES as u64;
            if is_own {
                let key = LogKey {
                    job: self.job,
                    channel: Channel {
                        source: self.source,
                        incarnation: self.incarnation,
                        destination: header.destination,
                    },
                };
                let copy = ChunkCopy {
                    sequence: header.sequence,
                    seal: header.seal,
                    place: CopyPlace::Memory(chunk),
                    unwritten: false,
                };
                found(key, copy);
            }
        }
    }

    /// Whether the memory is of this life.
    pub(super) fn is_of(&self, key: &LogKey) -> bool {
        let channel = &key.channel;
        (self.job, self.source, self.incarnation) == (key.job, channel.source, channel.incarnation)
    }

    /// Copies the beginning of a chunk, as much as fits; returns whether the chunk exists.
    pub(super) fn copy(&self, chunk: ChunkId, to: &mut [u8]) -> bool {
        self.region.copy_chunk(self.arena.start, chunk, to)
    }
}
