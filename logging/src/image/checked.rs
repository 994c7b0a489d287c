//! One chunk's bytes, checked up to the last record before any of them is given
//! out: a valid record may still be of another channel, from before
//! its file was reused, as only the chunk's header names the channel.

use super::LogKey;
use refrain_ring::chunk::{CHUNK_HEAD_BYTES, ChunkError, ChunkHeader, ChunkReader, Seal};
use refrain_ring::{CHUNK_BYTES, RecordHeader, RecordKind, payload_offset};
use thiserror::Error;

/// Why a copy of a chunk cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChunkFault {
    /// The bytes are damaged or incomplete.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// Another chunk is in its place: the file was reused since.
    #[error("its place contains another chunk: the file was reused meanwhile")]
    Another,
    /// The file was removed.
    #[error("its file was removed meanwhile")]
    Gone,
    /// A later slot of its file, or the next file, was written, but this slot
    /// was not: several chunks are written at once, and a crash may leave out any
    /// of them.
    #[error("it was never written, though a later chunk was")]
    Unwritten,
    /// The checksums are correct, but the header contradicts the records.
    #[error("its header contradicts its records")]
    Contradiction,
    /// The system could not read it.
    #[error("it cannot be read: {0}")]
    Read(String),
}

/// A chunk that was read and checked.
#[derive(Debug, Default)]
pub(super) struct CheckedChunk {
    /// As long as a chunk once it has been used.
    bytes: Vec<u8>,
    records: Vec<(RecordHeader, usize)>,
    /// The log continues in another chunk. An unsealed chunk without a link must be the
    /// last.
    pub goes_on: bool,
}

impl CheckedChunk {
    /// Buffer for the bytes to be checked.
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

    /// Checks the first `bytes` bytes of the buffer, which were read from disk.
    pub fn check_sealed(
        &mut self,
        bytes: usize,
        key: &LogKey,
        sequence: u64,
    ) -> Result<(), ChunkFault> {
        self.check(bytes, |bytes| ChunkReader::sealed(bytes), key, sequence)
    }

    /// Checks the buffer, which was read from a dead rank's memory: sealed or not.
    pub fn check_memory(&mut self, key: &LogKey, sequence: u64) -> Result<(), ChunkFault> {
        self.check(
            CHUNK_BYTES,
            |bytes| ChunkReader::in_memory(bytes),
            key,
            sequence,
        )
    }

    fn check(
        &mut self,
        bytes: usize,
        open: fn(&[u8]) -> Result<ChunkReader<'_>, ChunkError>,
        key: &LogKey,
        sequence: u64,
    ) -> Result<(), ChunkFault> {
        let bytes = &self.bytes[..bytes];
        let mut reader = open(bytes)?;
        let header = *reader.header();
        if !is_chunk(&header, key, sequence) {
            return Err(ChunkFault::Another);
        }
        while let Some(record) = reader.next_record()? {
            self.records.push((record.header, record.offset));
        }
        self.goes_on = match header.seal {
            Some(seal) if !says_what_it_holds(&seal, &self.records) => {
                return Err(ChunkFault::Contradiction);
            }
            Some(_) => true,
            None => RecordHeader::decode(&bytes[reader.offset()..])
                .is_ok_and(|header| header.kind == RecordKind::Link),
        };
        Ok(())
    }
}

/// Whether a header belongs to this chunk of this log.
pub(super) fn is_chunk(header: &ChunkHeader, key: &LogKey, sequence: u64) -> bool {
    let channel = &key.channel;
    header.sequence == sequence
        && header.source == channel.source
        && header.destination == channel.destination
        && header.incarnation == channel.incarnation
        && header.seal.is_none_or(|seal| seal.job == key.job)
}

fn says_what_it_holds(seal: &Seal, records: &[(RecordHeader, usize)]) -> bool {
    let ssns = || records.iter().map(|(header, _)| header.ssn);
    let of_program = || ssns().filter(|ssn| ssn.is_program());
    let low = of_program().chain([seal.ssn_end]).min();
    seal.has_internal == ssns().any(|ssn| !ssn.is_program())
        && low == Some(seal.ssn_low)
        && of_program().all(|ssn| ssn < seal.ssn_end)
}

/// The header of a chunk in a dead rank's memory. A header that was being sealed when the
/// rank was killed still names its channel.
pub(super) fn header_in_memory(bytes: &[u8; CHUNK_HEAD_BYTES]) -> Option<ChunkHeader> {
    match ChunkHeader::decode(bytes) {
        Ok(header) => Some(header),
        Err(ChunkError::Header) => Some(*ChunkReader::in_memory(bytes).ok()?.header()),
        Err(_) => None,
    }
}
