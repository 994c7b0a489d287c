//! [`Records`]: the records of one log, streamed in order.

use super::ahead::OpenFiles;
use super::checked::{CheckedChunk, ChunkFault};
use super::index::{ChunkPlace, Copy, LogIndex};
use super::shared::SharedChunk;
use super::{LogImage, LogKey};
use core::ops::Range;
use refrain_ring::{CHUNK_BYTES, Frontier, Position, RecordHeader, Reference, Ssn, Stream};
use thiserror::Error;

/// Number of chunks that are read ahead: 4 MiB, so that the disk is busy while checksums are
/// computed.
const AHEAD_CHUNKS: u64 = 16;

/// The chunks of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogExtent {
    /// Sequence numbers of its chunks. Chunks before the first one were freed.
    pub chunks: Range<u64>,
    /// Number of chunks before a gap: they are freed too, but not
    /// overwritten yet.
    pub chunks_before_gap: usize,
    /// Chunks behind the last valid one: they were being written when the
    /// rank or its host died.
    pub torn_chunks: Vec<u64>,
}

/// A record of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// Its header.
    pub header: RecordHeader,
    /// Its payload; `None` if it was shared with other logs, and is gone with the memory of its
    /// rank, or freed there. LOG-6
    pub payload: Option<&'a [u8]>,
    /// Position of the record in the channel's log.
    pub position: Position,
}

/// A copy of a chunk that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {why}")]
pub struct CopyFault {
    /// Place of the copy.
    pub place: ChunkPlace,
    /// The reason.
    pub why: ChunkFault,
}

/// Why a log cannot be read, or not beyond some chunk.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadFailure {
    /// There is no such log.
    #[error("{0} does not exist")]
    NoLog(LogKey),
    /// A chunk in the middle of the log has no valid copy.
    #[error("chunk {sequence} of {key} is damaged ({})", list(.copies))]
    Damaged {
        /// Whose log.
        key: LogKey,
        /// Which chunk.
        sequence: u64,
        /// The fault of each copy.
        copies: Vec<CopyFault>,
    },
    /// A chunk in memory ends without a link, though the log continues behind it.
    #[error(
        "chunk {sequence} of {key} has no end in the rank's memory, though the log continues after it"
    )]
    BrokenOff {
        /// Whose log.
        key: LogKey,
        /// Which chunk.
        sequence: u64,
    },
    /// Records that do not make a message.
    #[error("message {ssn} of {key}: {what}")]
    Message {
        /// Whose log.
        key: LogKey,
        /// SSN of the message.
        ssn: Ssn,
        /// The problem.
        what: &'static str,
    },
}

fn list(copies: &[CopyFault]) -> String {
    let copies: Vec<String> = copies.iter().map(CopyFault::to_string).collect();
    copies.join("; ")
}

/// Selects messages of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Messages of one stream, from this one on.
    Stream(Ssn),
    /// Messages of all streams, from these on.
    All(Frontier),
}

impl From<Ssn> for Wanted {
    fn from(ssn: Ssn) -> Self {
        Self::Stream(ssn)
    }
}

impl From<Frontier> for Wanted {
    fn from(from: Frontier) -> Self {
        Self::All(from)
    }
}

impl Wanted {
    fn has(&self, ssn: Ssn) -> bool {
        match self {
            Self::Stream(from) => ssn.stream() == from.stream() && ssn >= *from,
            Self::All(from) => !from.is_beyond(ssn),
        }
    }
}

/// A stream of records; each is valid until the next one is read.
#[derive(Debug)]
pub struct Records<'a> {
    image: &'a LogImage,
    key: LogKey,
    index: &'a LogIndex,
    wanted: Wanted,
    extent: LogExtent,
    /// The next chunk to be loaded, and the one up to which reading ahead has begun.
    next_chunk: u64,
    asked_until: u64,
    open: OpenFiles,
    chunk: CheckedChunk,
    shared: SharedChunk,
    next_record: usize,
    /// An unsealed chunk that ended without a link.
    broken_off: Option<u64>,
    ended: bool,
}

impl<'a> Records<'a> {
    pub(super) fn new(
        image: &'a LogImage,
        key: &LogKey,
        wanted: Wanted,
    ) -> Result<Self, ReadFailure> {
        let index = image.logs.get(key).ok_or(ReadFailure::NoLog(*key))?;
        let mut records = Self {
            image,
            key: *key,
            index,
            wanted,
            extent: LogExtent {
                chunks: 0..0,
                chunks_before_gap: 0,
                torn_chunks: Vec::new(),
            },
            next_chunk: 0,
            asked_until: 0,
            open: OpenFiles::default(),
            chunk: CheckedChunk::default(),
            shared: SharedChunk::default(),
            next_record: 0,
            broken_off: None,
            ended: false,
        };
        records.find_extent();
        let chunks = records.extent.chunks.clone();
        records.next_chunk = match &records.wanted {
            Wanted::Stream(from) if from.is_program() => index.begin_of(*from, chunks),
            // Which internal messages a chunk holds only its records say.
            // Behind all of the program's.
            Wanted::Stream(_) => index.begin_of_all(Ssn::first(Stream(1)), chunks),
            Wanted::All(from) => index.begin_of_all(from.program, chunks),
        };
        records.asked_until = records.next_chunk;
        records.chunk = CheckedChunk::default();
        Ok(records)
    }

    /// Searches from the end backwards to the last valid chunk, then to the first gap.
    fn find_extent(&mut self) {
        let index = self.index;
        let mut torn = Vec::new();
        let mut last = None;
        for (sequence, copies) in index.chunks.iter().rev() {
            if self.load(copies).is_ok() {
                last = Some(*sequence);
                break;
            }
            torn.push(*sequence);
        }
        torn.reverse();
        self.extent.torn_chunks = torn;
        let Some(last) = last else {
            return;
        };
        let mut first = last;
        while first > 0 && index.chunks.contains_key(&(first - 1)) {
            first -= 1;
        }
        self.extent.chunks = first..last + 1;
        self.extent.chunks_before_gap = index.chunks.range(..first).count();
    }

    /// Skips the chunks before that of a position. Messages of a stream begin in the
    /// order of their numbers, so the wanted ones begin behind any message below them.
    pub(super) fn skip_to(&mut self, begun: Position) {
        let chunk = begun.0 / CHUNK_BYTES as u64;
        self.next_chunk = self.next_chunk.max(chunk);
        self.asked_until = self.next_chunk;
    }

    /// The chunks of the log.
    pub fn extent(&self) -> &LogExtent {
        &self.extent
    }

    pub(super) fn key(&self) -> LogKey {
        self.key
    }

    /// The next record; `None` at the end of the log.
    ///
    /// # Errors
    /// When a chunk has no valid copy. Later calls give no records: to read those behind the
    /// chunk, begin at a later SSN.
    #[expect(
        clippy::should_implement_trait,
        reason = "records live in the stream's buffer"
    )]
    pub fn next(&mut self) -> Result<Option<LogRecord<'_>>, ReadFailure> {
        loop {
            while let Some((header, _, _)) = self.chunk.record(self.next_record) {
                if self.wanted.has(header.ssn) {
                    return self.take_record();
                }
                self.next_record += 1;
            }
            if self.ended || self.next_chunk >= self.extent.chunks.end {
                self.ended = true;
                return Ok(None);
            }
            self.load_next()?;
        }
    }

    fn take_record(&mut self) -> Result<Option<LogRecord<'_>>, ReadFailure> {
        let chunk_begin = (self.next_chunk - 1) * CHUNK_BYTES as u64;
        let Some((header, payload, offset)) = self.chunk.record(self.next_record) else {
            return Ok(None);
        };
        self.next_record += 1;
        let (header, payload) = match header.flags & RecordHeader::REFERENCE {
            0 => (*header, Some(payload)),
            _ => {
                let referred = Reference::of_record(header, payload);
                let (reference, header) = referred.map_err(|_| ReadFailure::Message {
                    key: self.key,
                    ssn: header.ssn,
                    what: "one of its records refers to payload that no chunk can hold",
                })?;
                let of = (&reference, &header);
                (header, self.shared.payload(self.image, &self.key, of))
            }
        };
        Ok(Some(LogRecord {
            header,
            payload,
            position: Position(chunk_begin + offset as u64),
        }))
    }

    fn load_next(&mut self) -> Result<(), ReadFailure> {
        self.ask_ahead();
        let sequence = self.next_chunk;
        let copies = self.index.chunks.get(&sequence).map_or(&[][..], |all| all);
        self.next_chunk += 1;
        self.next_record = 0;
        let loaded = self.load(copies);
        // No records are given after an error.
        self.ended = loaded.is_err();
        if let Err(copies) = loaded {
            self.chunk = CheckedChunk::default();
            return Err(ReadFailure::Damaged {
                key: self.key,
                sequence,
                copies,
            });
        }
        self.check_link(sequence)
    }

    /// Checks that the log ends at a chunk without a link. The next chunk may exist only if it
    /// was taken and never written to.
    fn check_link(&mut self, sequence: u64) -> Result<(), ReadFailure> {
        if let Some(broken_off) = self.broken_off.filter(|_| self.chunk.records() > 0) {
            self.ended = true;
            self.chunk = CheckedChunk::default();
            return Err(ReadFailure::BrokenOff {
                key: self.key,
                sequence: broken_off,
            });
        }
        if !self.chunk.goes_on {
            self.broken_off.get_or_insert(sequence);
        }
        Ok(())
    }

    fn ask_ahead(&mut self) {
        let until = (self.next_chunk + AHEAD_CHUNKS).min(self.extent.chunks.end);
        for sequence in self.asked_until..until {
            if let Some(copy) = self.index.chunks.get(&sequence).and_then(|all| all.first()) {
                copy.will_load(self.image, &mut self.open);
            }
        }
        self.asked_until = self.asked_until.max(until);
    }

    /// Loads the first valid copy; returns the fault of each copy if there is none.
    fn load(&mut self, copies: &[Copy]) -> Result<(), Vec<CopyFault>> {
        let mut faults = Vec::new();
        for copy in copies {
            match copy.load(self.image, &self.key, &mut self.open, &mut self.chunk) {
                Ok(()) => return Ok(()),
                Err(why) => faults.push(CopyFault {
                    place: copy.place(self.image),
                    why,
                }),
            }
        }
        Err(faults)
    }
}
