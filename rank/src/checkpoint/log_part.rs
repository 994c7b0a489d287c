//! The log to one rank that is not freed, as a stream of records. Only the record that is read is
//! held in memory.

use super::engine_part::{STRANGE_STREAMS, put_frontier};
use refrain_ring::{Frontier, HeaderError, Rank, RecordHeader, RecordKind, Ssn, Stream};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use thiserror::Error;

/// Version of the log part. A reader refuses every other version.
pub const LOG_VERSION: u8 = 2;

const MAGIC: [u8; 7] = *b"rfrnulg";
const HEAD_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 4;

/// The stream is not a log part of this version.
#[derive(Debug, Error)]
pub enum LogPartError {
    /// The stream cannot be read, or ends too early.
    #[error("the log of a checkpoint cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The magic number is wrong.
    #[error("not the log of a checkpoint")]
    Magic,
    /// The part was written by another version.
    #[error(
        "log part of version {0}, this program reads version {LOG_VERSION}: use the refrain that wrote the checkpoint"
    )]
    Version(u8),
    /// A checksum is wrong.
    #[error("the log of a checkpoint is damaged: a checksum is wrong")]
    Checksum,
    /// A record's header is invalid.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The records cannot follow each other.
    #[error("the log of a checkpoint contradicts itself: {0}")]
    Contradiction(&'static str),
}

/// The result of one step of saving or loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Records were written, or put into the log; more follow.
    More,
    /// The next record waits for a disk, for room, or until events are stable: make progress, and
    /// continue.
    Waiting,
    /// All records are written, or in the log.
    Done,
}

/// Of each stream, the first message that is not in the log of this pair, if `next` is the next
/// one. A rank's log to itself has results only: its messages to itself are saved apart.
pub(super) fn saved_until((source, destination): (Rank, Rank), next: &Frontier) -> Frontier {
    match source == destination {
        true => Frontier::from(next.of(Stream::RESULTS)),
        false => next.clone(),
    }
}

/// Writes a log part, record by record. Each checksum covers everything before it.
#[derive(Debug)]
pub struct LogWriter {
    checksum: u32,
    records: u64,
}

impl LogWriter {
    /// Begins the log from `source` to `destination`; `until`: of each stream, the SSN of the next
    /// message to `destination`.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub fn begin(
        out: &mut dyn Write,
        source: Rank,
        destination: Rank,
        until: &Frontier,
    ) -> io::Result<Self> {
        let mut head = [0; HEAD_BYTES];
        head[..7].copy_from_slice(&MAGIC);
        head[7] = LOG_VERSION;
        head[8..12].copy_from_slice(&source.0.to_le_bytes());
        head[12..16].copy_from_slice(&destination.0.to_le_bytes());
        let mut writer = Self {
            checksum: 0,
            records: 0,
        };
        writer.put(out, &head, &encoded(until))?;
        Ok(writer)
    }

    /// Writes the next record.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub fn record(
        &mut self,
        out: &mut dyn Write,
        header: &RecordHeader,
        payload: &[u8],
    ) -> io::Result<()> {
        self.records += 1;
        self.put(out, &header.encode(), payload)
    }

    /// Ends the log. Messages below `kept_from` are free, and may be missing in part.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub fn end(mut self, out: &mut dyn Write, kept_from: &Frontier) -> io::Result<()> {
        let mut end = [0; RecordHeader::BYTES];
        end[8..16].copy_from_slice(&self.records.to_le_bytes());
        self.put(out, &end, &encoded(kept_from))
    }

    fn put(&mut self, out: &mut dyn Write, head: &[u8], payload: &[u8]) -> io::Result<()> {
        self.checksum = checksum(self.checksum, head, payload);
        out.write_all(head)?;
        out.write_all(payload)?;
        out.write_all(&self.checksum.to_le_bytes())
    }
}

fn encoded(frontier: &Frontier) -> Vec<u8> {
    let mut words = Vec::new();
    put_frontier(&mut words, frontier);
    words
}

fn checksum(before: u32, head: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(before, head), payload)
}

/// A message whose records are being read.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    ssn: Ssn,
    message_bytes: u64,
    read_bytes: u64,
}

/// Reads a log part, record by record. Refuses a record that does not follow the one before it.
#[derive(Debug)]
pub struct LogReader {
    source: Rank,
    destination: Rank,
    until: Frontier,
    checksum: u32,
    records: u64,
    /// The latest message of each stream, also when it is read completely.
    messages: BTreeMap<Stream, Unfinished>,
    /// The stream of the present message.
    present: Stream,
    payload: Vec<u8>,
}

impl LogReader {
    /// Reads the beginning of a log part.
    ///
    /// # Errors
    /// When it is not a log part of this version.
    pub fn begin(from: &mut dyn Read) -> Result<Self, LogPartError> {
        let head: [u8; HEAD_BYTES] = take(from)?;
        if head[..7] != MAGIC {
            return Err(LogPartError::Magic);
        }
        if head[7] != LOG_VERSION {
            return Err(LogPartError::Version(head[7]));
        }
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|byte| head[at + byte]));
        let mut reader = Self {
            source: Rank(word(8) as u32),
            destination: Rank((word(8) >> 32) as u32),
            until: Frontier::default(),
            checksum: 0,
            records: 0,
            messages: BTreeMap::new(),
            present: Stream::PROGRAM,
            payload: Vec::new(),
        };
        reader.until = reader.frontier(from, &head)?;
        Ok(reader)
    }

    /// The source of the log.
    pub fn source(&self) -> Rank {
        self.source
    }

    /// The destination of the log.
    pub fn destination(&self) -> Rank {
        self.destination
    }

    /// Of each stream, the SSN of the next message, which is not in the log.
    pub fn until(&self) -> &Frontier {
        &self.until
    }

    /// Reads the next record; `None` at the end.
    ///
    /// # Errors
    /// When the part is damaged; then it cannot be read further.
    pub fn next(
        &mut self,
        from: &mut dyn Read,
    ) -> Result<Option<(RecordHeader, &[u8])>, LogPartError> {
        let head: [u8; RecordHeader::BYTES] = take(from)?;
        self.payload.clear();
        if head[..8] == [0; 8] {
            let kept_from = self.frontier(from, &head)?;
            return self.check_end(&head, &kept_from).map(|()| None);
        }
        let header = RecordHeader::decode(&head)?;
        self.payload.resize(header.payload_bytes as usize, 0);
        from.read_exact(&mut self.payload)?;
        self.check(from, &head)?;
        if header.encode() != head {
            return Err(LogPartError::Contradiction("reserved bytes are not zero"));
        }
        self.follow(&header).map_err(LogPartError::Contradiction)?;
        self.records += 1;
        Ok(Some((header, &self.payload)))
    }

    /// Reads a frontier after `head`, and checks both.
    fn frontier(&mut self, from: &mut dyn Read, head: &[u8]) -> Result<Frontier, LogPartError> {
        let streams: [u8; 8] = take(from)?;
        self.payload = streams.to_vec();
        let mut ssns = Vec::new();
        // There are no more streams; an incomplete frontier fails the checksum.
        for _ in 0..u64::from_le_bytes(streams).min(u64::from(Stream::MAX.0) + 1) {
            let ssn: [u8; 8] = take(from)?;
            self.payload.extend_from_slice(&ssn);
            ssns.push(Ssn(u64::from_le_bytes(ssn)));
        }
        self.check(from, head)?;
        Frontier::of_all(&ssns).ok_or(LogPartError::Contradiction(STRANGE_STREAMS))
    }

    fn check(&mut self, from: &mut dyn Read, head: &[u8]) -> Result<(), LogPartError> {
        self.checksum = checksum(self.checksum, head, &self.payload);
        let found: [u8; CHECKSUM_BYTES] = take(from)?;
        match u32::from_le_bytes(found) == self.checksum {
            true => Ok(()),
            false => Err(LogPartError::Checksum),
        }
    }

    /// Checks that each message is complete, and that the messages of a stream are in the order of
    /// their SSNs.
    fn follow(&mut self, header: &RecordHeader) -> Result<(), &'static str> {
        if header.source != self.source {
            return Err("a record of another rank");
        }
        if header.flags & RecordHeader::REFERENCE != 0 {
            return Err("a record whose payload is elsewhere");
        }
        if header.flags & RecordHeader::ATTACHED != 0 {
            return Err("a record with an attachment, which is no part of a message");
        }
        let payload_bytes = u64::from(header.payload_bytes);
        match header.kind {
            RecordKind::Eager => {
                let stream = header.ssn.stream();
                let is_after = |message: &Unfinished| message.ssn < header.ssn;
                let latest = self.messages.get(&stream);
                if !self.until.is_beyond(header.ssn) || !latest.is_none_or(is_after) {
                    return Err("a message out of order");
                }
                let message = Unfinished {
                    ssn: header.ssn,
                    message_bytes: header.extent,
                    read_bytes: payload_bytes,
                };
                self.messages.insert(stream, message);
                self.present = stream;
            }
            RecordKind::Fragment => {
                let message = self.messages.get_mut(&self.present);
                let message = message.filter(|message| {
                    message.ssn == header.ssn
                        && message.read_bytes == header.extent
                        && payload_bytes > 0
                        && header.extent + payload_bytes <= message.message_bytes
                });
                message.ok_or("a fragment out of order")?.read_bytes += payload_bytes;
            }
            RecordKind::Rendezvous | RecordKind::Link => {
                return Err("a record of a kind that no saved log has");
            }
        }
        Ok(())
    }

    fn check_end(
        &self,
        end: &[u8; RecordHeader::BYTES],
        kept_from: &Frontier,
    ) -> Result<(), LogPartError> {
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|byte| end[at + byte]));
        let ends_with = |until: Ssn| {
            let message = self.messages.get(&until.stream());
            message.is_some_and(|message| {
                message.read_bytes == message.message_bytes && message.ssn.next() == until
            })
        };
        if word(8) != self.records || end[16..] != [0; 32] {
            return Err(LogPartError::Contradiction(
                "its end belongs to another log",
            ));
        }
        let mut kept = self.until.all();
        if !kept.all(|until| kept_from.of(until.stream()) >= until || ends_with(until)) {
            return Err(LogPartError::Contradiction("its last messages are missing"));
        }
        Ok(())
    }
}

fn take<const N: usize>(from: &mut dyn Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}
