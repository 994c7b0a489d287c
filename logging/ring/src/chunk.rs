//! The header of a chunk, and the check of its bytes: the form in which chunks are written to
//! disk and found in a dead rank's memory (docs/formats/log-format.md).
//!
//! Pure functions of bytes: all input is checked.

use crate::header::{HEADER_BYTES, LINE_BYTES, le_bytes};
use crate::writer::{CHUNK_HEADER_BYTES, CHUNK_MAGIC, LINK_BYTES};
use crate::{
    CHUNK_BYTES, HeaderError, Incarnation, Rank, RecordHeader, RecordKind, Ssn, payload_offset,
    record_bytes,
};
use thiserror::Error;

/// Bytes of an encoded chunk header.
pub const CHUNK_HEAD_BYTES: usize = CHUNK_HEADER_BYTES;
/// Offset of a record's checksum, behind the checked part of its header.
pub(crate) const CHECK_OFFSET: usize = 40;

/// Bit in the word with the used bytes.
const HAS_INTERNAL_BIT: u32 = 63;

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Sequence number of the chunk in its channel's log, from 0.
    pub sequence: u64,
    /// The sender, to which the log belongs.
    pub source: Rank,
    /// The receiver.
    pub destination: Rank,
    /// Incarnation of the sender.
    pub incarnation: Incarnation,
    /// The fields that sealing adds; `None` in memory while the chunk is not sealed.
    pub seal: Option<Seal>,
}

/// The description of a chunk's contents once it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Bytes of header and records; bytes behind them are not valid.
    pub used_bytes: u32,
    /// Whether the chunk holds records of internal streams.
    pub has_internal: bool,
    /// Lowest sequence number of a record of the program's stream in this chunk.
    pub ssn_low: Ssn,
    /// One past the highest sequence number of the program's stream in the log up to the end of
    /// this chunk.
    pub ssn_end: Ssn,
    /// The job.
    pub job: u64,
    /// CRC-32 over the `check` words of its records, in order: detects a
    /// valid record that was not written together with the others.
    pub records_check: u32,
}

/// Why bytes are not a valid chunk.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// No chunk was written there.
    #[error("no chunk was written here")]
    Empty,
    /// The bytes do not begin with a chunk's magic.
    #[error("no chunk of this version begins here")]
    Magic,
    /// The chunk's own header is damaged.
    #[error("the header of the chunk is damaged")]
    Header,
    /// The chunk in memory is not sealed, but only sealed ones are valid there.
    #[error("the chunk was never completed")]
    NotSealed,
    /// Fewer bytes than the header says, or more than the maximum of a chunk.
    #[error("the chunk claims {used_bytes} bytes, but has {found_bytes}")]
    Length {
        /// Length in the header.
        used_bytes: u32,
        /// Length of the given bytes.
        found_bytes: usize,
    },
    /// A record is damaged; those before it are valid.
    #[error("record {index} (at byte {offset}) is damaged: {what}")]
    Record {
        /// Index of the record in the chunk, from 0.
        index: usize,
        /// Offset of the record in the chunk.
        offset: usize,
        /// The kind of damage.
        what: RecordDamage,
    },
    /// Every record is valid, but they were not written together.
    #[error("its records were not written together")]
    Mixture,
}

/// The kind of damage of a record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordDamage {
    /// The header's checksum differs.
    #[error("its header does not match its checksum")]
    HeaderCheck,
    /// The payload's checksum differs.
    #[error("its payload does not match its checksum")]
    PayloadCheck,
    /// The checksum is correct, but no rank writes such a header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The record ends beyond its chunk.
    #[error("it ends beyond its chunk")]
    Overrun,
    /// A record of another rank or incarnation.
    #[error("it is of another rank or incarnation")]
    Stranger,
    /// The record is a link, which a sealed chunk does not have.
    #[error("it is a link, which no sealed chunk has")]
    Link,
}

/// The checksum word of a record: CRC-32 of header bytes 0..40 in the upper
/// half, of the payload in the lower.
pub(crate) fn record_check(head: &[u8; CHECK_OFFSET], payload: &[u8]) -> u64 {
    u64::from(crc32fast::hash(head)) << 32 | u64::from(crc32fast::hash(payload))
}

impl ChunkHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; CHUNK_HEAD_BYTES] {
        le_bytes(self.words())
    }

    /// The header as eight words, in native order.
    pub(crate) fn words(&self) -> [u64; 8] {
        let mut words = [
            CHUNK_MAGIC,
            self.sequence,
            u64::from(self.source.0) | u64::from(self.destination.0) << 32,
            u64::from(self.incarnation.0),
            0,
            0,
            0,
            0,
        ];
        if let Some(seal) = self.seal {
            words[3] |= u64::from(seal.used_bytes) << 32;
            words[3] |= u64::from(seal.has_internal) << HAS_INTERNAL_BIT;
            words[4] = seal.ssn_low.0;
            words[5] = seal.ssn_end.0;
            words[6] = seal.job;
            words[7] = u64::from(seal.records_check);
            words[7] |= u64::from(head_check(&words)) << 32;
        }
        words
    }

    /// Decodes the header of a chunk, in memory or on disk.
    ///
    /// # Errors
    /// When no chunk begins there, or a sealed header does not match its
    /// checksum.
    pub fn decode(bytes: &[u8]) -> Result<Self, ChunkError> {
        let words = read_words(bytes)?;
        let used_bytes = ((words[3] & !(1 << HAS_INTERNAL_BIT)) >> 32) as u32;
        let seal = if words[3] >> 32 == 0 && words[4..] == [0; 4] {
            None
        } else {
            if (words[7] >> 32) as u32 != head_check(&words) {
                return Err(ChunkError::Header);
            }
            Some(Seal {
                used_bytes,
                has_internal: words[3] >> HAS_INTERNAL_BIT != 0,
                ssn_low: Ssn(words[4]),
                ssn_end: Ssn(words[5]),
                job: words[6],
                records_check: words[7] as u32,
            })
        };
        Ok(Self {
            seal,
            ..Self::of_words(&words)
        })
    }

    /// The identity in a chunk's header; its seal is not decoded.
    fn of_words(words: &[u64; 8]) -> Self {
        Self {
            sequence: words[1],
            source: Rank(words[2] as u32),
            destination: Rank((words[2] >> 32) as u32),
            incarnation: Incarnation(words[3] as u32),
            seal: None,
        }
    }
}

fn read_words(bytes: &[u8]) -> Result<[u64; 8], ChunkError> {
    let (words, _) = bytes.as_chunks::<8>();
    let words: &[[u8; 8]; 8] = words.first_chunk().ok_or(ChunkError::Length {
        used_bytes: CHUNK_HEAD_BYTES as u32,
        found_bytes: bytes.len(),
    })?;
    match words.map(u64::from_le_bytes) {
        words if words == [0; 8] => Err(ChunkError::Empty),
        words if words[0] != CHUNK_MAGIC => Err(ChunkError::Magic),
        words => Ok(words),
    }
}

/// CRC-32 over bytes 0..60 of an encoded header.
fn head_check(words: &[u64; 8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for word in &words[..7] {
        hasher.update(&word.to_le_bytes());
    }
    hasher.update(&(words[7] as u32).to_le_bytes());
    hasher.finalize()
}

/// A record read from a chunk.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRecord<'a> {
    /// Its header.
    pub header: RecordHeader,
    /// Its payload.
    pub payload: &'a [u8],
    /// Offset of the record in the chunk.
    pub offset: usize,
}

/// Reads the bytes of one chunk record by record, and checks them: a
/// damaged chunk gives the valid records before the damage and then an error,
/// never a wrong record.
#[derive(Clone, Debug)]
pub struct ChunkReader<'a> {
    header: ChunkHeader,
    bytes: &'a [u8],
    offset: usize,
    index: usize,
    checks: crc32fast::Hasher,
    ended: bool,
}

impl<'a> ChunkReader<'a> {
    /// Reads a sealed chunk, as it is on disk.
    ///
    /// # Errors
    /// When the bytes do not begin with a sealed header whose checksum is
    /// correct, or are fewer than the header says.
    pub fn sealed(bytes: &'a [u8]) -> Result<Self, ChunkError> {
        let header = ChunkHeader::decode(bytes)?;
        let seal = header.seal.ok_or(ChunkError::NotSealed)?;
        let used_bytes = seal.used_bytes as usize;
        if !(CHUNK_HEAD_BYTES..=CHUNK_BYTES - LINK_BYTES).contains(&used_bytes)
            || !used_bytes.is_multiple_of(LINE_BYTES)
            || used_bytes > bytes.len()
        {
            return Err(ChunkError::Length {
                used_bytes: seal.used_bytes,
                found_bytes: bytes.len(),
            });
        }
        Ok(Self::new(header, &bytes[..used_bytes]))
    }

    /// Reads a chunk in the memory of a dead rank, sealed or not. An unsealed chunk
    /// has no checksums, and ends at the first record word that is 0.
    ///
    /// # Errors
    /// When no chunk begins there.
    pub fn in_memory(bytes: &'a [u8]) -> Result<Self, ChunkError> {
        match ChunkHeader::decode(bytes) {
            // The rank was killed while sealing: the records were complete before.
            Err(ChunkError::Header) => Ok(Self::open(
                ChunkHeader::of_words(&read_words(bytes)?),
                bytes,
            )),
            Ok(header) if header.seal.is_none() => Ok(Self::open(header, bytes)),
            _ => Self::sealed(bytes),
        }
    }

    /// Reads a chunk from the record at `offset` on. Its checksums were verified
    /// before, or the chunk has never left this rank.
    #[cfg(not(loom))]
    pub(crate) fn checked(bytes: &'a [u8], offset: usize) -> Result<Self, ChunkError> {
        let header = ChunkHeader::decode(bytes)?;
        let used_bytes = header
            .seal
            .map_or(bytes.len(), |seal| seal.used_bytes as usize);
        let header = ChunkHeader {
            seal: None,
            ..header
        };
        Ok(Self {
            offset,
            ..Self::open(header, &bytes[..used_bytes.min(bytes.len())])
        })
    }

    fn open(header: ChunkHeader, bytes: &'a [u8]) -> Self {
        Self::new(header, &bytes[..bytes.len().min(CHUNK_BYTES)])
    }

    fn new(header: ChunkHeader, bytes: &'a [u8]) -> Self {
        Self {
            header,
            bytes,
            offset: CHUNK_HEAD_BYTES,
            index: 0,
            checks: crc32fast::Hasher::new(),
            ended: false,
        }
    }

    /// The chunk's header.
    pub fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// Offset of the next record in the chunk.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The next record; `None` at the end of the chunk.
    ///
    /// # Errors
    /// When the chunk is damaged there. Later calls give no more records.
    pub fn next_record(&mut self) -> Result<Option<ChunkRecord<'a>>, ChunkError> {
        if self.ended {
            return Ok(None);
        }
        let next = match self.header.seal {
            Some(seal) => self.next_sealed(seal),
            None => self.next_open(),
        };
        if !matches!(next, Ok(Some(_))) {
            self.ended = true;
        }
        next
    }

    fn next_sealed(&mut self, seal: Seal) -> Result<Option<ChunkRecord<'a>>, ChunkError> {
        if self.offset == self.bytes.len() {
            return match self.checks.clone().finalize() == seal.records_check {
                true => Ok(None),
                false => Err(ChunkError::Mixture),
            };
        }
        let (record, check) = self.read_sealed().map_err(|what| self.damage(what))?;
        self.checks.update(&check.to_le_bytes());
        self.go_behind(&record);
        Ok(Some(record))
    }

    fn read_sealed(&self) -> Result<(ChunkRecord<'a>, u64), RecordDamage> {
        let rest = &self.bytes[self.offset..];
        let head: &[u8; HEADER_BYTES] = rest.first_chunk().ok_or(RecordDamage::Overrun)?;
        let (checked, check) = head.split_at(CHECK_OFFSET);
        let check = u64::from_le_bytes(check.try_into().expect("eight bytes"));
        if (check >> 32) as u32 != crc32fast::hash(checked) {
            return Err(RecordDamage::HeaderCheck);
        }
        let record = self.read(RecordHeader::decode(head)?)?;
        if check as u32 != crc32fast::hash(record.payload) {
            return Err(RecordDamage::PayloadCheck);
        }
        if record.header.kind == RecordKind::Link {
            return Err(RecordDamage::Link);
        }
        Ok((record, check))
    }

    fn next_open(&mut self) -> Result<Option<ChunkRecord<'a>>, ChunkError> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let Some(first_word) = rest.first_chunk::<8>() else {
            return Ok(None);
        };
        if *first_word == [0; 8] {
            return Ok(None);
        }
        let record = RecordHeader::decode(rest)
            .map_err(RecordDamage::Header)
            .and_then(|header| self.read(header))
            .map_err(|what| self.damage(what))?;
        if record.header.kind == RecordKind::Link {
            return Ok(None);
        }
        self.go_behind(&record);
        Ok(Some(record))
    }

    fn read(&self, header: RecordHeader) -> Result<ChunkRecord<'a>, RecordDamage> {
        if (header.source, header.incarnation) != (self.header.source, self.header.incarnation) {
            return Err(RecordDamage::Stranger);
        }
        let payload_bytes = header.payload_bytes as usize;
        let end = self.offset + record_bytes(payload_bytes);
        let is_inside = end <= self.bytes.len()
            && (end <= CHUNK_BYTES - LINK_BYTES || header.kind == RecordKind::Link);
        if !is_inside {
            return Err(RecordDamage::Overrun);
        }
        let begin = self.offset + payload_offset(payload_bytes);
        let payload = &self.bytes[begin..begin + payload_bytes];
        Ok(ChunkRecord {
            header,
            payload,
            offset: self.offset,
        })
    }

    fn go_behind(&mut self, record: &ChunkRecord<'_>) {
        self.offset += record_bytes(record.payload.len());
        self.index += 1;
    }

    pub(crate) fn damage(&self, what: RecordDamage) -> ChunkError {
        ChunkError::Record {
            index: self.index,
            offset: self.offset,
            what,
        }
    }
}

const _: () = assert!(CHUNK_HEAD_BYTES == LINE_BYTES);
