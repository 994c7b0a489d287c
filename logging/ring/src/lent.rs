//! [`LentChunk`]: a full chunk that its log has lent out, to be written to
//! disk directly from the ring.

use crate::chunk::{CHECK_OFFSET, ChunkHeader, Seal, record_check};
use crate::header::HEADER_BYTES;
use crate::writer::{CHUNK_HEADER_BYTES, ChannelLog};
use crate::{
    Frontier, Incarnation, Position, Rank, RecordHeader, RecordKind, Region, Ssn, payload_offset,
    record_bytes,
};

/// A complete chunk of a log. The log neither writes nor frees its memory until
/// the chunk is taken back ([`ChannelLog::take_back`]).
#[derive(Debug)]
pub struct LentChunk {
    region: Region,
    offset: usize,
    /// The header, not sealed.
    header: ChunkHeader,
    used_bytes: u32,
    ends: Frontier,
}

/// How the loan of a chunk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoanEnd {
    /// The chunk is on disk and can be read back: its memory may be reused when no reader
    /// uses it.
    OnDisk,
    /// The chunk is only in memory.
    InMemory,
}

impl LentChunk {
    pub(crate) fn new(
        region: Region,
        offset: usize,
        log: &ChannelLog,
        sequence: u64,
        used_bytes: usize,
        ends: Frontier,
    ) -> Self {
        let (source, destination, incarnation) = log.identity();
        Self {
            region,
            offset,
            header: ChunkHeader {
                sequence,
                source,
                destination,
                incarnation,
                seal: None,
            },
            used_bytes: used_bytes as u32,
            ends,
        }
    }

    /// Sequence number of the chunk in its channel's log.
    pub fn sequence(&self) -> u64 {
        self.header.sequence
    }

    /// The sender, to which the log belongs.
    pub fn source(&self) -> Rank {
        self.header.source
    }

    /// The channel's receiver.
    pub fn destination(&self) -> Rank {
        self.header.destination
    }

    /// Incarnation of the sender.
    pub fn incarnation(&self) -> Incarnation {
        self.header.incarnation
    }

    /// Bytes of header and records; bytes behind them are not valid.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes as usize
    }

    /// For each stream, one past the highest sequence number of the log up to the end
    /// of this chunk.
    pub fn ends(&self) -> &Frontier {
        &self.ends
    }

    /// Position behind the chunk.
    pub fn end(&self) -> Position {
        Position((self.header.sequence + 1) * crate::CHUNK_BYTES as u64)
    }

    /// Writes the checksum of each record, and completes the chunk's own header.
    /// Called once, by the thread that writes to disk. Readers of the records do not use these
    /// fields.
    pub fn seal(&mut self, job: u64) -> Seal {
        let mut checks = crc32fast::Hasher::new();
        let ssn_end = self.ends.program;
        let (mut ssn_low, mut has_internal) = (ssn_end, false);
        let mut at = CHUNK_HEADER_BYTES;
        while at < self.used_bytes() {
            let (record_bytes, ssn, check) = self.check_record(at);
            checks.update(&check.to_le_bytes());
            match ssn.is_program() {
                true => ssn_low = ssn_low.min(ssn),
                false => has_internal = true,
            }
            at += record_bytes;
        }
        debug_assert_eq!(at, self.used_bytes(), "the last record ends the chunk");
        let seal = Seal {
            used_bytes: self.used_bytes,
            has_internal,
            ssn_low,
            ssn_end,
            job,
            records_check: checks.finalize(),
        };
        let header = ChunkHeader {
            seal: Some(seal),
            ..self.header
        };
        // The last word, with the checksum, is stored last: if the rank is killed before
        // that, the header does not match its checksum.
        for (index, word) in header.words().into_iter().enumerate().skip(3) {
            self.region.store_word(self.offset + index * 8, word);
        }
        seal
    }

    /// Writes the checksum of the record at `at`; returns its length, number and checksum.
    fn check_record(&self, at: usize) -> (usize, Ssn, u64) {
        let bytes = &self.chunk_bytes()[at..];
        let head: &[u8; CHECK_OFFSET] = bytes.first_chunk().expect("a record has a header");
        let mut whole = [0; HEADER_BYTES];
        whole[..CHECK_OFFSET].copy_from_slice(head);
        let header = RecordHeader::decode(&whole).expect("what this rank has published");
        debug_assert_ne!(header.kind, RecordKind::Link);
        let payload_bytes = header.payload_bytes as usize;
        let begin = payload_offset(payload_bytes);
        let check = record_check(head, &bytes[begin..begin + payload_bytes]);
        self.region
            .store_word(self.offset + at + CHECK_OFFSET, check);
        (record_bytes(payload_bytes), header.ssn, check)
    }

    /// The bytes to write: header and records. Call after [`LentChunk::seal`].
    pub fn bytes(&self) -> &[u8] {
        &self.chunk_bytes()[..self.used_bytes()]
    }

    /// The whole chunk, whose end is not valid: for writes that must be
    /// of whole blocks.
    pub fn chunk_bytes(&self) -> &[u8] {
        self.region.chunk(self.offset)
    }
}
