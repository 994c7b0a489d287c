//! [`ChannelReader`]: the receiver's side of one channel's log.

#![allow(
    unsafe_code,
    reason = "declares the one unsafe function that reads a record again later"
)]

use crate::writer::{CHUNK_HEADER_BYTES, CHUNK_MAGIC, LINK_BYTES, NOWHERE};
use crate::{
    CHUNK_BYTES, ChunkId, HeaderError, Incarnation, Position, Rank, RecordHeader, RecordKind,
    Reference, Region, payload_offset, record_bytes,
};
use thiserror::Error;

/// Why a log cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// A header is invalid.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A link leads out of the arena, or leaves a chunk that holds no record, or leads to a chunk
    /// that is not a later one of the same log.
    #[error("a link leads to chunk {0}, which is no later chunk of this log: the log is damaged")]
    Link(u64),
    /// A reference leads out of the arena.
    #[error("a record refers to payload in chunk {0}, outside the arena: the log is damaged")]
    Reference(u32),
    /// The sender has left the chunk before it took another. All records before this position were
    /// read; a reader of the chunk that the sender takes next continues there.
    #[error("the log rests at position {0}: its next chunk is not taken yet")]
    Resting(Position),
    /// A record leaves no room in its chunk for the link to the next.
    #[error("a record of {0} payload bytes ends beyond its chunk: the log is damaged")]
    Overrun(u32),
}

/// A published record.
#[derive(Debug)]
pub struct Record<'a> {
    /// Its header.
    pub header: RecordHeader,
    /// Its payload.
    pub payload: &'a [u8],
    /// Position of the record in the channel's log.
    pub position: Position,
    /// Offset of the payload in the region.
    pub payload_offset: usize,
}

/// Reads one channel's log, record by record, in another process or the same.
#[derive(Debug)]
pub struct ChannelReader {
    region: Region,
    arena_offset: usize,
    chunks: u32,
    at: At,
}

/// The next place that is read.
#[derive(Debug, Default)]
struct At {
    /// Source, destination and incarnation, from the header of the chunk.
    log: (Rank, Rank, Incarnation),
    position: Position,
    /// Offset in the region.
    offset: usize,
}

impl ChannelReader {
    /// A reader that begins with the first record of the chunk `first`, which may
    /// be any chunk of its log, with the arena at `arena_offset` of `region`. The chunk's header
    /// gives its position in the log.
    ///
    /// # Errors
    /// When the chunk does not exist, or belongs to no log.
    pub fn new(region: Region, arena_offset: usize, first: ChunkId) -> Result<Self, ReadError> {
        let chunks = (region.bytes().saturating_sub(arena_offset) / CHUNK_BYTES) as u32;
        let mut reader = Self {
            region,
            arena_offset,
            chunks,
            at: At::default(),
        };
        reader.at = reader.start_of(u64::from(first.0))?;
        Ok(reader)
    }

    /// Sender and receiver of the log, and the sender's incarnation.
    pub fn log(&self) -> (Rank, Rank, Incarnation) {
        self.at.log
    }

    /// Position of the next record.
    #[inline]
    pub fn position(&self) -> Position {
        self.at.position
    }

    /// Whether a record or link is published; cheap, for polling.
    #[inline]
    pub fn ready(&self) -> bool {
        self.region.load_first_word(self.at.offset) != 0
    }

    /// Reads the next record, if one is published, and moves behind it.
    ///
    /// # Errors
    /// When the log is damaged there. The reader stays at this position.
    #[inline(always)]
    pub fn read(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        loop {
            let offset = self.at.offset;
            let first_word = self.region.load_first_word(offset);
            if first_word == 0 {
                return Ok(None);
            }
            let [a, b, c, d, e] = self.region.read_header_rest(offset);
            let header = RecordHeader::from_words([first_word, a, b, c, d, e])?;
            let used = (self.at.position.0 % CHUNK_BYTES as u64) as usize;
            if first_word & RecordHeader::ELSEWHERE != 0 {
                // A reference to payload that was freed is passed: the receiver does not need the
                // record. LOG-6
                match self.resolve(&header, used)? {
                    Some(at) => return Ok(Some(self.record_at(at))),
                    None => continue,
                }
            }
            let payload_bytes = header.payload_bytes as usize;
            let record = record_bytes(payload_bytes);
            if used + record > CHUNK_BYTES - LINK_BYTES {
                return Err(ReadError::Overrun(header.payload_bytes));
            }
            let payload_offset = offset + payload_offset(payload_bytes);
            let position = self.at.position;
            self.at.position = Position(position.0 + record as u64);
            self.at.offset += record;
            return Ok(Some(Record {
                header,
                payload: self.region.payload(payload_offset, payload_bytes),
                position,
                payload_offset,
            }));
        }
    }

    /// Payload of a record that was read before.
    ///
    /// # Safety
    /// The record must not have been released to its writer, nor be while the
    /// slice lives.
    #[inline]
    pub unsafe fn payload_at(&self, payload_offset: usize, payload_bytes: usize) -> &[u8] {
        self.region.payload(payload_offset, payload_bytes)
    }

    /// Moves behind a link or a record with a reference. Returns the record if its payload is
    /// there.
    #[cold]
    fn resolve(
        &mut self,
        header: &RecordHeader,
        used: usize,
    ) -> Result<Option<(RecordHeader, Position, usize)>, ReadError> {
        if header.kind == RecordKind::Link {
            // No chunk begins with a link, so at most one is followed.
            if used == CHUNK_HEADER_BYTES {
                return Err(ReadError::Link(header.extent));
            }
            if header.extent == NOWHERE {
                let next =
                    self.at.position.0 - used as u64 + (CHUNK_BYTES + CHUNK_HEADER_BYTES) as u64;
                return Err(ReadError::Resting(Position(next)));
            }
            return self.follow(header.extent).map(|()| None);
        }
        let record = record_bytes(Reference::BYTES);
        if used + record > CHUNK_BYTES - LINK_BYTES {
            return Err(ReadError::Overrun(header.payload_bytes));
        }
        let place = self.at.offset + payload_offset(Reference::BYTES);
        let bytes = self.region.payload(place, Reference::BYTES);
        let (reference, resolved) = Reference::of_record(header, bytes)?;
        if reference.chunk.0 >= self.chunks {
            return Err(ReadError::Reference(reference.chunk.0));
        }
        let of = (header.source, header.incarnation);
        let found = reference.find(&self.region, self.arena_offset, of);
        let position = self.at.position;
        self.at.position = Position(position.0 + record as u64);
        self.at.offset += record;
        Ok(found.map(|payload_offset| (resolved, position, payload_offset)))
    }

    fn record_at(
        &self,
        (header, position, payload_offset): (RecordHeader, Position, usize),
    ) -> Record<'_> {
        Record {
            header,
            payload: self
                .region
                .payload(payload_offset, header.payload_bytes as usize),
            position,
            payload_offset,
        }
    }

    #[cold]
    fn follow(&mut self, chunk: u64) -> Result<(), ReadError> {
        let next = self.start_of(chunk)?;
        // Chunks are skipped when all of their messages are free. LOG-4
        if next.log != self.at.log || next.position <= self.at.position {
            return Err(ReadError::Link(chunk));
        }
        self.at = next;
        Ok(())
    }

    /// The place of the first record of a chunk.
    fn start_of(&self, chunk: u64) -> Result<At, ReadError> {
        let astray = ReadError::Link(chunk);
        if chunk >= u64::from(self.chunks) {
            return Err(astray);
        }
        let start = self.arena_offset + chunk as usize * CHUNK_BYTES;
        let [magic, sequence, ranks, life] = self.region.chunk_words(start);
        let position = sequence
            .checked_mul(CHUNK_BYTES as u64)
            .filter(|_| magic == CHUNK_MAGIC)
            .ok_or(astray)?;
        Ok(At {
            log: (
                Rank(ranks as u32),
                Rank((ranks >> 32) as u32),
                Incarnation(life as u32),
            ),
            position: Position(position + CHUNK_HEADER_BYTES as u64),
            offset: start + CHUNK_HEADER_BYTES,
        })
    }
}
