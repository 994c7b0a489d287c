//! Payload to which records of a dead rank refer: it lies in the memory of the rank, and not on disk.
//! LOG-6

use super::{LogImage, LogKey};
use refrain_ring::{CHUNK_BYTES, ChunkId, RecordHeader, Reference};

/// The chunk of shared payload that was read last.
#[derive(Debug, Default)]
pub(super) struct SharedChunk {
    /// The memory and the chunk in it.
    of: Option<(usize, ChunkId)>,
    bytes: Vec<u8>,
}

impl SharedChunk {
    /// The payload of a record that refers to it; `None` if it was freed, or its memory is gone.
    pub fn payload(
        &mut self,
        image: &LogImage,
        key: &LogKey,
        (reference, record): (&Reference, &RecordHeader),
    ) -> Option<&[u8]> {
        let number = image.memories.iter().position(|memory| memory.is_of(key))?;
        let of = Some((number, reference.chunk));
        if self.of != of {
            self.of = None;
            self.bytes.resize(CHUNK_BYTES, 0);
            if !image.memories[number].copy(reference.chunk, &mut self.bytes) {
                return None;
            }
            self.of = of;
        }
        let (words, _) = self.bytes.as_chunks::<8>();
        let words = [0, 1, 2, 3].map(|index: usize| u64::from_le_bytes(words[index]));
        let is_there = reference.is_in(words, record.source, record.incarnation);
        let begin = reference.offset();
        is_there.then(|| &self.bytes[begin..begin + reference.bytes as usize])
    }
}
