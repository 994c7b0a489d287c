//! One chunk's bytes, checked to the last record before any of them is given
//! out: a record that is whole by itself may be of another channel, from before
//! its file was used again, as only the chunk's header says whose it is.

use super::LogKey;
use refrain_ring::chunk::{CHUNK_HEAD_BYTES, ChunkError, ChunkHeader, ChunkReader, Seal};
use refrain_ring::{CHUNK_BYTES, RecordHeader, RecordKind, Ssn, payload_offset};
use thiserror::Error;

/// Why a copy of a chunk cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChunkFault {
    /// Its bytes are not whole.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// It holds another chunk than it should: its file was used again since.
    #[error("another chunk is there by now")]
    Another,
    /// Its file is removed.
    #[error("its file is gone by now")]
    Gone,
    /// A later slot of its file, or the file that follows, was written, this one
    /// was not: several chunks are written at once, and a death may leave out any
    /// of them.
    #[error("it was never written, though a chunk behind it was")]
    Unwritten,
    /// Its checksums hold, but its header contradicts its records.
    #[error("its header does not say what its records are")]
    Contradiction,
    /// The system could not read it.
    #[error("it cannot be read: {0}")]
    Read(String),
}

/// A chunk that was read and found whole.
#[derive(Debug, Default)]
pub(super) struct CheckedChunk {
    /// As long as a chunk once it was used.
    bytes: Vec<u8>,
    records: Vec<(RecordHeader, usize)>,
    /// The log goes on in another chunk. An unsealed chunk without a link must
    /// be the last.
    pub goes_on: bool,
}

impl CheckedChunk {
    /// Where to put the bytes that are to be checked.
    pub fn buffer(&mut self) -> &mut [u8] {
        self.records.clear();
        self.bytes.resize(CHUNK_BYTES, 0);
        &mut self.bytes
    }

    pub fn records(&self) -> usize {
        self.records.len()
    }

    pub fn record(&self, index: usize) -> Option<(&RecordHeader, &[u8], usize)> {
        let (header, offset) = self.records.get(index)?;
        let payload_bytes = header.payload_bytes as usize;
        let begin = offset + payload_offset(payload_bytes);
        Some((header, &self.bytes[begin..begin + payload_bytes], *offset))
    }

    /// Checks the first `bytes` bytes of the buffer, of a disk.
    pub fn check_sealed(
        &mut self,
        bytes: usize,
        key: &LogKey,
        sequence: u64,
    ) -> Result<Seal, ChunkFault> {
        let reader = ChunkReader::sealed(&self.bytes[..bytes])?;
        self.walk(bytes, reader_identity(&reader), key, sequence, false)?
            .ok_or(ChunkFault::Chunk(ChunkError::NotSealed))
    }

    /// Checks the buffer's bytes, of a dead rank's memory: sealed or not.
    pub fn check_memory(&mut self, key: &LogKey, sequence: u64) -> Result<(), ChunkFault> {
        let reader = ChunkReader::in_memory(&self.bytes)?;
        self.walk(CHUNK_BYTES, reader_identity(&reader), key, sequence, true)?;
        Ok(())
    }

    fn walk(
        &mut self,
        bytes: usize,
        header: ChunkHeader,
        key: &LogKey,
        sequence: u64,
        in_memory: bool,
    ) -> Result<Option<Seal>, ChunkFault> {
        if !is_chunk(&header, key, sequence) {
            return Err(ChunkFault::Another);
        }
        let bytes = &self.bytes[..bytes];
        let mut reader = match in_memory {
            true => ChunkReader::in_memory(bytes)?,
            false => ChunkReader::sealed(bytes)?,
        };
        while let Some(record) = reader.next_record()? {
            self.records.push((record.header, record.offset));
        }
        match header.seal {
            Some(seal) => {
                self.goes_on = true;
                if !says_what_it_holds(&seal, &self.records) {
                    return Err(ChunkFault::Contradiction);
                }
            }
            None => {
                let end = RecordHeader::decode(&bytes[reader.offset()..]);
                self.goes_on = end.is_ok_and(|header| header.kind == RecordKind::Link);
            }
        }
        Ok(header.seal)
    }
}

fn reader_identity(reader: &ChunkReader<'_>) -> ChunkHeader {
    *reader.header()
}

/// Whether a header is of this chunk of this log.
pub(super) fn is_chunk(header: &ChunkHeader, key: &LogKey, sequence: u64) -> bool {
    let channel = &key.channel;
    header.sequence == sequence
        && header.source == channel.source
        && header.destination == channel.destination
        && header.incarnation == channel.incarnation
        && header.seal.is_none_or(|seal| seal.job == key.job)
}

fn says_what_it_holds(seal: &Seal, records: &[(RecordHeader, usize)]) -> bool {
    let mut all = records.iter().map(|(header, _)| header.ssn);
    if seal.has_internal != all.any(|ssn| !ssn.is_program()) {
        return false;
    }
    let ssns = || {
        let ssns = records.iter().map(|(header, _)| header.ssn);
        ssns.filter(|ssn| ssn.is_program())
    };
    let low = ssns()
        .min()
        .map_or(seal.ssn_end, |low| low.min(seal.ssn_end));
    low == seal.ssn_low && ssns().max().is_none_or(|high| high < seal.ssn_end)
}

/// The header of a chunk in a dead rank's memory. One that was being sealed when
/// the rank was killed still says whose it is.
pub(super) fn header_in_memory(bytes: &[u8; CHUNK_HEAD_BYTES]) -> Option<ChunkHeader> {
    match ChunkHeader::decode(bytes) {
        Ok(header) => Some(header),
        Err(ChunkError::Header) => {
            let reader = ChunkReader::in_memory(bytes).ok()?;
            Some(*reader.header())
        }
        Err(_) => None,
    }
}

/// One past the highest SSN of the program's stream up to the end of a chunk, as far as
/// it says.
pub(super) fn ssn_end(seal: Option<&Seal>) -> Option<Ssn> {
    seal.map(|seal| seal.ssn_end)
}
