//! Payload that records of several channels share: it is written once, and each of these records
//! holds a [`Reference`] to it in place of the payload. LOG-6
//!
//! Shared payload lies in chunks of the same arena, with a chunk header whose destination is no
//! rank. The sequence number in it is never used twice, so a reader recognises a reference
//! to memory that was freed and used again. A chunk is freed when every channel with a reference
//! into it needs none of them any more. It never goes to disk.

use crate::header::{LINE_BYTES, payload_offset};
use crate::writer::{CHUNK_HEADER_BYTES, CHUNK_MAGIC, FRAGMENT_BYTES_MIN, Room, begin_chunk};
use crate::{
    Arena, CHUNK_BYTES, ChannelLog, ChunkId, Frontier, HeaderError, Incarnation, Position, Rank,
    RecordHeader, RecordKind, Region, Ssn,
};
use std::collections::VecDeque;

/// The destination in the headers of chunks with shared payload: no rank has this number.
pub const NO_DESTINATION: Rank = Rank(u32::MAX);

/// Where shared payload lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Position of its first byte in the shared payload of its rank.
    pub position: Position,
    /// The chunk of the arena.
    pub chunk: ChunkId,
    /// Its length in bytes.
    pub bytes: u32,
}

impl Reference {
    /// Bytes of an encoded reference: they share the line of their record's header.
    pub const BYTES: usize = 16;

    /// Encodes the reference.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let position = u128::from(self.position.0);
        let place = u128::from(self.chunk.0) << 64 | u128::from(self.bytes) << 96;
        (position | place).to_le_bytes()
    }

    /// The reference in the payload of a record with the flag [`RecordHeader::REFERENCE`], and the
    /// header of the record as if the payload were in it.
    ///
    /// # Errors
    /// When no chunk, or no message, can hold the payload.
    pub fn of_record(
        header: &RecordHeader,
        payload: &[u8],
    ) -> Result<(Self, RecordHeader), HeaderError> {
        let bytes: &[u8; Self::BYTES] =
            (payload.try_into()).map_err(|_| HeaderError::Short(payload.len()))?;
        let word = u128::from_le_bytes(*bytes);
        let reference = Self {
            position: Position(word as u64),
            chunk: ChunkId((word >> 64) as u32),
            bytes: (word >> 96) as u32,
        };
        let length = reference.bytes as usize;
        let in_message = match header.kind {
            RecordKind::Eager => u64::from(reference.bytes) <= header.extent,
            _ => (header.extent.checked_add(u64::from(reference.bytes))).is_some(),
        };
        let begin = reference.offset();
        let in_chunk = begin >= CHUNK_HEADER_BYTES && begin + length <= CHUNK_BYTES;
        if !in_message || !in_chunk || !(1..=ChannelLog::PAYLOAD_BYTES_MAX).contains(&length) {
            return Err(HeaderError::Extent {
                payload_bytes: reference.bytes,
                offset: reference.position.0,
            });
        }
        let resolved = RecordHeader {
            payload_bytes: reference.bytes,
            flags: header.flags & !RecordHeader::REFERENCE,
            ..*header
        };
        Ok((reference, resolved))
    }

    /// Sequence number of the chunk in the shared payload of its rank.
    fn sequence(&self) -> u64 {
        self.position.0 / CHUNK_BYTES as u64
    }

    /// Offset of the payload in its chunk.
    pub fn offset(&self) -> usize {
        (self.position.0 % CHUNK_BYTES as u64) as usize
    }

    /// Whether the chunk with these first words still holds the payload of this life of `source`.
    /// If not, it was freed: no receiver needs the record. LOG-6
    pub fn is_in(&self, words: [u64; 4], source: Rank, incarnation: Incarnation) -> bool {
        let [magic, sequence, ranks, life] = words;
        magic == CHUNK_MAGIC
            && sequence == self.sequence()
            && ranks == u64::from(NO_DESTINATION.0) << 32 | u64::from(source.0)
            && life as u32 == incarnation.0
    }

    /// Offset of the payload in the region of its rank, with the arena at `arena_offset`; `None`
    /// if it was freed. The chunk must be in the arena.
    pub(crate) fn find(
        &self,
        region: &Region,
        arena_offset: usize,
        (source, incarnation): (Rank, Incarnation),
    ) -> Option<usize> {
        let start = arena_offset + self.chunk.0 as usize * CHUNK_BYTES;
        let is_there = self.is_in(region.chunk_words(start), source, incarnation);
        is_there.then_some(start + self.offset())
    }
}

/// What a channel refers to in a chunk.
#[derive(Debug)]
pub struct Referred {
    /// The receiver of the channel.
    pub destination: Rank,
    /// Position in the channel's log behind its last record with a reference into the chunk.
    pub until: Position,
    /// For each stream, one past the highest message with such a record.
    pub ends: Frontier,
}

#[derive(Debug)]
struct SharedChunk {
    chunk: ChunkId,
    referred: Vec<Referred>,
}

/// The writer of a rank's shared payload.
#[derive(Debug)]
pub struct SharedPayload {
    source: Rank,
    incarnation: Incarnation,
    chunks_max: usize,
    /// From the oldest chunk that is not freed to the one being filled.
    chunks: VecDeque<SharedChunk>,
    /// Number of chunks freed so far: the sequence number of `chunks[0]`.
    freed: u64,
    /// Bytes used in the last chunk.
    used_bytes: usize,
}

impl SharedPayload {
    /// Shared payload of at most `bytes_max` bytes of memory, in whole chunks; less than two chunks
    /// are none.
    pub fn new(source: Rank, incarnation: Incarnation, bytes_max: u64) -> Self {
        let chunks_max = usize::try_from(bytes_max / CHUNK_BYTES as u64).unwrap_or(usize::MAX);
        Self {
            source,
            incarnation,
            chunks_max: if chunks_max < 2 { 0 } else { chunks_max },
            chunks: VecDeque::new(),
            freed: 0,
            used_bytes: CHUNK_BYTES,
        }
    }

    /// Whether there may be shared payload at all.
    pub fn is_on(&self) -> bool {
        self.chunks_max > 0
    }

    /// Position behind the last payload: bytes written so far, with headers and unused ends.
    pub fn tail(&self) -> Position {
        let end = (self.freed + self.chunks.len() as u64) * CHUNK_BYTES as u64;
        Position(end - (CHUNK_BYTES - self.used_bytes) as u64 * u64::from(end > 0))
    }

    /// Whether longer payload needs another chunk.
    pub fn is_chunk_full(&self) -> bool {
        CHUNK_BYTES - self.used_bytes < FRAGMENT_BYTES_MIN
    }

    /// Writes up to `bytes_max` bytes of payload, less at the end of a chunk; `None` without room.
    pub fn put(
        &mut self,
        arena: &mut Arena,
        bytes_max: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Option<Reference> {
        if self.is_chunk_full() {
            self.take_chunk(arena)?;
        }
        let position = self.tail();
        let chunk = self.chunks.back()?.chunk;
        let left = CHUNK_BYTES - self.used_bytes;
        let bytes = bytes_max.min(left).min(ChannelLog::PAYLOAD_BYTES_MAX);
        let place = arena.offset_of(chunk) + self.used_bytes;
        let mut room = Room {
            // Of a record with this payload; nothing else of it is written.
            offset: place - payload_offset(bytes),
            payload_bytes: bytes,
        };
        fill(arena.region().payload_mut(&mut room));
        self.used_bytes += bytes.next_multiple_of(LINE_BYTES);
        Some(Reference {
            position,
            chunk,
            bytes: bytes as u32,
        })
    }

    fn take_chunk(&mut self, arena: &mut Arena) -> Option<()> {
        if self.chunks.len() >= self.chunks_max {
            return None;
        }
        let chunk = arena.take().ok()?;
        let sequence = self.freed + self.chunks.len() as u64;
        let log = (self.source, NO_DESTINATION, self.incarnation);
        begin_chunk(arena.region(), arena.offset_of(chunk), sequence, log);
        self.chunks.push_back(SharedChunk {
            chunk,
            referred: Vec::new(),
        });
        self.used_bytes = CHUNK_HEADER_BYTES;
        Some(())
    }

    /// Whether the payload is not freed.
    pub fn has(&self, reference: &Reference) -> bool {
        reference.sequence() >= self.freed
    }

    /// Notes a record that holds the reference: of message `ssn` to `destination`, before the
    /// position `until` of that channel's log.
    ///
    /// # Panics
    /// When the payload was freed.
    pub fn refer(&mut self, reference: &Reference, destination: Rank, until: Position, ssn: Ssn) {
        let index = (reference.sequence() - self.freed) as usize;
        let referred = &mut self.chunks[index].referred;
        let at = referred.iter().position(|it| it.destination == destination);
        let at = at.unwrap_or_else(|| {
            referred.push(Referred {
                destination,
                until,
                ends: Frontier::default(),
            });
            referred.len() - 1
        });
        referred[at].until = until;
        referred[at].ends.raise_to(ssn.next());
    }

    /// Frees the oldest chunks, as long as no channel needs a record with a reference into them.
    /// LOG-6
    pub fn trim(&mut self, arena: &mut Arena, mut is_done: impl FnMut(&Referred) -> bool) {
        // The chunk being filled stays.
        while self.chunks.len() > 1 && self.chunks[0].referred.iter().all(&mut is_done) {
            if let Some(oldest) = self.chunks.pop_front() {
                arena.give_back(oldest.chunk);
                self.freed += 1;
            }
        }
    }
}

const _: () = assert!(payload_offset(Reference::BYTES) + Reference::BYTES == LINE_BYTES);
