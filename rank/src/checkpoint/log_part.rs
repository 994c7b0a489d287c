//! The un-freed log to one rank, as a stream of records. Nothing of it is held in
//! memory but the record that is read.

use refrain_ring::{HeaderError, Rank, RecordHeader, RecordKind, Ssn};
use std::io::{self, Read, Write};
use thiserror::Error;

/// Version of the log part. A reader refuses every other.
pub const LOG_VERSION: u8 = 1;

const MAGIC: [u8; 7] = *b"rfrnulg";
const HEAD_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 4;

/// Why a stream is not a log part of this version.
#[derive(Debug, Error)]
pub enum LogPartError {
    /// It cannot be read, or ends too early.
    #[error("the log of a checkpoint cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It begins otherwise.
    #[error("not the log of a checkpoint")]
    Magic,
    /// Written by another version.
    #[error(
        "log part of version {0}, this program reads version {LOG_VERSION}: go on with the refrain that wrote the checkpoint"
    )]
    Version(u8),
    /// Not what was written.
    #[error("the log of a checkpoint is damaged: a checksum is wrong")]
    Checksum,
    /// A record that is none.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Records that cannot follow each other.
    #[error("the log of a checkpoint contradicts itself: {0}")]
    Contradiction(&'static str),
}

/// Writes a log part, record by record. Each checksum is of everything before.
#[derive(Debug)]
pub struct LogWriter {
    checksum: u32,
    records: u64,
}

impl LogWriter {
    /// Begins the log from `source` to `destination`; `until`: the number of the
    /// next message to it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(
        out: &mut dyn Write,
        source: Rank,
        destination: Rank,
        until: Ssn,
    ) -> io::Result<Self> {
        let mut head = [0; HEAD_BYTES];
        head[..7].copy_from_slice(&MAGIC);
        head[7] = LOG_VERSION;
        head[8..12].copy_from_slice(&source.0.to_le_bytes());
        head[12..16].copy_from_slice(&destination.0.to_le_bytes());
        head[16..].copy_from_slice(&until.0.to_le_bytes());
        let mut writer = Self {
            checksum: 0,
            records: 0,
        };
        writer.put(out, &head, &[])?;
        Ok(writer)
    }

    /// Writes the next record.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn record(
        &mut self,
        out: &mut dyn Write,
        header: &RecordHeader,
        payload: &[u8],
    ) -> io::Result<()> {
        self.records += 1;
        self.put(out, &header.encode(), payload)
    }

    /// Ends it. Messages below `kept_from` are free: of those that were written
    /// something may be missing.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn end(mut self, out: &mut dyn Write, kept_from: Ssn) -> io::Result<()> {
        let mut end = [0; RecordHeader::BYTES];
        end[8..16].copy_from_slice(&self.records.to_le_bytes());
        end[16..24].copy_from_slice(&kept_from.0.to_le_bytes());
        self.put(out, &end, &[])
    }

    fn put(&mut self, out: &mut dyn Write, head: &[u8], payload: &[u8]) -> io::Result<()> {
        self.checksum = checksum(self.checksum, head, payload);
        out.write_all(head)?;
        out.write_all(payload)?;
        out.write_all(&self.checksum.to_le_bytes())
    }
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

/// Reads a log part, record by record, and gives none that does not follow the one
/// before it.
#[derive(Debug)]
pub struct LogReader {
    source: Rank,
    destination: Rank,
    until: Ssn,
    checksum: u32,
    records: u64,
    /// The present message, also when all of it is read.
    message: Option<Unfinished>,
    payload: Vec<u8>,
}

impl LogReader {
    /// Reads how it begins.
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
            until: Ssn(word(16)),
            checksum: 0,
            records: 0,
            message: None,
            payload: Vec::new(),
        };
        reader.check(from, &head)?;
        Ok(reader)
    }

    /// Whose log it is.
    pub fn source(&self) -> Rank {
        self.source
    }

    /// To whom.
    pub fn destination(&self) -> Rank {
        self.destination
    }

    /// The number of the next message, which is not in it.
    pub fn until(&self) -> Ssn {
        self.until
    }

    /// The next record, or none at the end.
    ///
    /// # Errors
    /// When it is damaged; it cannot be read on then.
    pub fn next(
        &mut self,
        from: &mut dyn Read,
    ) -> Result<Option<(RecordHeader, &[u8])>, LogPartError> {
        let head: [u8; RecordHeader::BYTES] = take(from)?;
        self.payload.clear();
        if head[..8] == [0; 8] {
            self.check(from, &head)?;
            return self.check_end(&head).map(|()| None);
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

    fn check(&mut self, from: &mut dyn Read, head: &[u8]) -> Result<(), LogPartError> {
        self.checksum = checksum(self.checksum, head, &self.payload);
        let found: [u8; CHECKSUM_BYTES] = take(from)?;
        match u32::from_le_bytes(found) == self.checksum {
            true => Ok(()),
            false => Err(LogPartError::Checksum),
        }
    }

    /// Each message from its first byte to its last, in the order of their
    /// numbers.
    fn follow(&mut self, header: &RecordHeader) -> Result<(), &'static str> {
        if header.source != self.source {
            return Err("a record of another rank");
        }
        let payload_bytes = u64::from(header.payload_bytes);
        match header.kind {
            RecordKind::Eager => {
                let is_after = |message: Unfinished| message.ssn < header.ssn;
                if header.ssn >= self.until || !self.message.is_none_or(is_after) {
                    return Err("a message out of order");
                }
                self.message = Some(Unfinished {
                    ssn: header.ssn,
                    message_bytes: header.extent,
                    read_bytes: payload_bytes,
                });
            }
            RecordKind::Fragment => {
                let message = self.message.as_mut();
                let message = message.filter(|message| {
                    message.ssn == header.ssn
                        && message.read_bytes == header.extent
                        && payload_bytes > 0
                        && header.extent + payload_bytes <= message.message_bytes
                });
                message.ok_or("a fragment out of order")?.read_bytes += payload_bytes;
            }
            RecordKind::Rendezvous | RecordKind::Link => {
                return Err("a record that is in no kept log");
            }
        }
        Ok(())
    }

    fn check_end(&self, end: &[u8; RecordHeader::BYTES]) -> Result<(), LogPartError> {
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|byte| end[at + byte]));
        let kept_from = Ssn(word(16));
        let is_whole = |message: Unfinished| {
            message.read_bytes == message.message_bytes && message.ssn.next() == self.until
        };
        if word(8) != self.records || end[24..] != [0; 24] {
            return Err(LogPartError::Contradiction(
                "its end belongs to another log",
            ));
        }
        if kept_from < self.until && !self.message.is_some_and(is_whole) {
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
