//! [`ChannelReader`]: the receiver's side of one channel's log.

#![allow(
    unsafe_code,
    reason = "declares the one unsafe function that reads a record again later"
)]

use crate::writer::{CHUNK_HEADER_BYTES, CHUNK_MAGIC, LINK_BYTES};
use crate::{
    CHUNK_BYTES, ChunkId, HeaderError, Incarnation, Position, Rank, RecordHeader, RecordKind,
    Region, payload_offset, record_bytes,
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
    /// Source, destination and incarnation, from the chunks' headers.
    log: (Rank, Rank, Incarnation),
    position: Position,
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
            log: Default::default(),
            position: Position(0),
            offset: 0,
        };
        let first = u64::from(first.0);
        let head = reader.head_of(first)?;
        reader.log = head.log;
        reader.enter(head);
        Ok(reader)
    }

    /// Sender and receiver of the log, and the sender's incarnation.
    pub fn log(&self) -> (Rank, Rank, Incarnation) {
        self.log
    }

    /// Position of the next record.
    #[inline]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Whether a record or link is published; cheap, for polling.
    #[inline]
    pub fn ready(&self) -> bool {
        self.region.load_first_word(self.offset) != 0
    }

    /// The next record, if one is published.
    ///
    /// # Errors
    /// When the log is damaged there. The reader stays at this position.
    #[inline(always)]
    pub fn peek(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        loop {
            let first_word = self.region.load_first_word(self.offset);
            if first_word == 0 {
                return Ok(None);
            }
            let [a, b, c, d, e] = self.region.read_header_rest(self.offset);
            let header = RecordHeader::from_words([first_word, a, b, c, d, e])?;
            let used = (self.position.0 % CHUNK_BYTES as u64) as usize;
            if header.kind == RecordKind::Link {
                // No chunk begins with a link, so at most one is followed.
                if used == CHUNK_HEADER_BYTES {
                    return Err(ReadError::Link(header.extent));
                }
                self.follow(header.extent)?;
                continue;
            }
            let payload_bytes = header.payload_bytes as usize;
            if used + record_bytes(payload_bytes) > CHUNK_BYTES - LINK_BYTES {
                return Err(ReadError::Overrun(header.payload_bytes));
            }
            let payload_offset = self.offset + payload_offset(payload_bytes);
            return Ok(Some(Record {
                header,
                payload: self.region.payload(payload_offset, payload_bytes),
                position: self.position,
                payload_offset,
            }));
        }
    }

    /// Moves behind the record that was peeked.
    #[inline]
    pub fn advance(&mut self, payload_bytes: u32) {
        let record = record_bytes(payload_bytes as usize);
        self.position = Position(self.position.0 + record as u64);
        self.offset += record;
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

    #[cold]
    fn follow(&mut self, chunk: u64) -> Result<(), ReadError> {
        let head = self.head_of(chunk)?;
        // Chunks are skipped when all of their messages are free. LOG-4
        if head.log != self.log || head.position <= self.position {
            return Err(ReadError::Link(chunk));
        }
        self.enter(head);
        Ok(())
    }

    fn enter(&mut self, head: Head) {
        self.position = head.position;
        self.offset = head.offset;
    }

    /// The header of a chunk.
    fn head_of(&self, chunk: u64) -> Result<Head, ReadError> {
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
        Ok(Head {
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

/// Identity of a chunk, and the position of its first record.
struct Head {
    log: (Rank, Rank, Incarnation),
    position: Position,
    offset: usize,
}
