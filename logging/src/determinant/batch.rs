//! The batch: the record in which determinants are sent and stored.
//!
//! The same bytes lie in the client's ring in the logger's memory, in the
//! logger's files and in its answers to a recovering rank. A reader takes a
//! batch only if version, rank, incarnation, number and checksum all agree
//! (EL-2): in a ring it may be torn, stale, or of a dead incarnation.
//!
//! Format (little endian, [`HEADER_BYTES`], then the payload, see
//! [`super::record`]):
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | CRC-32C (Castagnoli) of bytes 4 to the end of the payload |
//! | 4 | version ([`BATCH_VERSION`]) |
//! | 5 | kind: 1 |
//! | 6..8 | how many determinants (1 to [`COUNT_MAX`]) |
//! | 8..10 | payload bytes (at most [`PAYLOAD_BYTES_MAX`]) |
//! | 10..12 | how many lives before this incarnation the determinants were made |
//! | 12..16 | rank |
//! | 16..20 | incarnation |
//! | 20..24 | both halves of the job's number, exclusive-or |
//! | 24..32 | number of the first determinant |
//! | 32..40 | clock of the first determinant |
//! | 40..48 | clock of the last determinant |

use super::{EventIndex, checksum};
use core::hash::{Hash, Hasher};
use refrain_ring::{Clock, Incarnation, Rank};
use thiserror::Error;

/// Version of header and payload. A reader refuses every other.
pub const BATCH_VERSION: u8 = 5;
/// Bytes of an encoded header.
pub const HEADER_BYTES: usize = 48;
/// Maximum length of a batch in bytes.
pub const BATCH_BYTES_MAX: usize = 4096;
/// Maximum length of its payload in bytes.
pub const PAYLOAD_BYTES_MAX: usize = BATCH_BYTES_MAX - HEADER_BYTES;
/// Maximum number of determinants in a batch.
pub const COUNT_MAX: u16 = 1024;

const KIND_BATCH: u8 = 1;

/// Offset of the header fields that change from batch to batch of one life.
const BEGINNING_END: usize = 24;

/// The checksum of the header fields that are the same in all batches of one life with the same
/// number of determinants and bytes: it is computed once for consecutive ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning {
    /// Number of determinants, and bytes of payload.
    same: Option<(u16, u32)>,
    checksum: u32,
}

/// Hashes nothing: all fields follow from the state of the recorder, which is hashed.
impl Hash for Beginning {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchHeader {
    /// Folded number of the job, see [`job_tag`].
    pub job_tag: u32,
    /// The rank whose determinants they are.
    pub rank: Rank,
    /// The incarnation that wrote them.
    pub incarnation: Incarnation,
    /// How many lives before that they were made: 0, unless a later life has taken them over. CAUSAL-5
    pub lives_before: u16,
    /// Number of the first determinant.
    pub first: EventIndex,
    /// Number of determinants.
    pub count: u16,
    /// Clock of the first determinant.
    pub first_clock: Clock,
    /// Clock of the last determinant: the highest.
    pub last_clock: Clock,
    /// Bytes of the payload.
    pub payload_bytes: u32,
}

/// Why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    /// Fewer bytes than the header says.
    #[error("cut short: {0} bytes")]
    Short(usize),
    /// Written by another version, or not a batch.
    #[error("version {version}, kind {kind}: this program reads version {BATCH_VERSION}, kind 1")]
    Version {
        /// The version found.
        version: u8,
        /// The kind found.
        kind: u8,
    },
    /// A number outside its limits.
    #[error("{field} is {value}, which is not valid")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u64,
    },
    /// The checksum does not match the bytes: torn, or damaged.
    #[error("the checksum does not fit the bytes")]
    Checksum,
}

/// The tag in batches that is computed from the job's number.
pub fn job_tag(job: u64) -> u32 {
    (job ^ job >> 32) as u32
}

impl BatchHeader {
    /// One past the number of the last determinant.
    pub fn end(&self) -> EventIndex {
        EventIndex(self.first.0 + u64::from(self.count))
    }

    /// The incarnation that made the determinants.
    pub fn made_by(&self) -> Incarnation {
        Incarnation(self.incarnation.0 - u32::from(self.lives_before))
    }

    /// Bytes of the whole batch.
    pub fn batch_bytes(&self) -> usize {
        HEADER_BYTES + self.payload_bytes as usize
    }

    /// Writes the header, with its checksum, into the space before the payload in
    /// `batch`.
    ///
    /// # Panics
    /// When `batch` is shorter than the header says.
    pub fn seal(&self, batch: &mut [u8]) {
        self.seal_with(batch, &mut Beginning::default());
    }

    /// As [`BatchHeader::seal`], for batches of one life, with `known` kept between them.
    #[inline(always)]
    pub(super) fn seal_with(&self, batch: &mut [u8], known: &mut Beginning) {
        let batch = &mut batch[..self.batch_bytes()];
        if let Some(header) = batch.first_chunk_mut() {
            self.put(header);
        }
        let same = (self.count, self.payload_bytes);
        if known.same != Some(same) {
            known.checksum = checksum::append(0, &batch[4..BEGINNING_END]);
            known.same = Some(same);
        }
        let checksum = checksum::append(known.checksum, &batch[BEGINNING_END..]);
        batch[..4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Writes all of the header except the checksum.
    #[inline]
    fn put(&self, header: &mut [u8; HEADER_BYTES]) {
        header[4] = BATCH_VERSION;
        header[5] = KIND_BATCH;
        header[6..8].copy_from_slice(&self.count.to_le_bytes());
        header[8..10].copy_from_slice(&(self.payload_bytes as u16).to_le_bytes());
        header[10..12].copy_from_slice(&self.lives_before.to_le_bytes());
        header[12..16].copy_from_slice(&self.rank.0.to_le_bytes());
        header[16..20].copy_from_slice(&self.incarnation.0.to_le_bytes());
        header[20..24].copy_from_slice(&self.job_tag.to_le_bytes());
        header[24..32].copy_from_slice(&self.first.0.to_le_bytes());
        header[32..40].copy_from_slice(&self.first_clock.0.to_le_bytes());
        header[40..48].copy_from_slice(&self.last_clock.0.to_le_bytes());
    }

    /// Reads the header at the start of `bytes` and checks that its numbers are within their
    /// limits. Does not check the checksum: for a reader that does not have the whole batch yet.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn peek(bytes: &[u8]) -> Result<Self, BatchError> {
        let header: &[u8; HEADER_BYTES] =
            bytes.first_chunk().ok_or(BatchError::Short(bytes.len()))?;
        let (version, kind) = (header[4], header[5]);
        if version != BATCH_VERSION || kind != KIND_BATCH {
            return Err(BatchError::Version { version, kind });
        }
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| header[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| header[at + i]));
        let read = Self {
            count: u16_at(6),
            payload_bytes: u16_at(8).into(),
            lives_before: u16_at(10),
            rank: Rank(u32_at(12)),
            incarnation: Incarnation(u32_at(16)),
            job_tag: u32_at(20),
            first: EventIndex(u64_at(24)),
            first_clock: Clock(u64_at(32)),
            last_clock: Clock(u64_at(40)),
        };
        let wrong = |field, value| Err(BatchError::Field { field, value });
        if read.count == 0 || read.count > COUNT_MAX {
            return wrong("the count", read.count.into());
        }
        if read.payload_bytes == 0 || read.payload_bytes as usize > PAYLOAD_BYTES_MAX {
            return wrong("the length of the payload", read.payload_bytes.into());
        }
        if u32::from(read.lives_before) > read.incarnation.0 {
            return wrong("the number of lives before", read.lives_before.into());
        }
        if read.first.0.checked_add(read.count.into()).is_none() {
            return wrong("the first number", read.first.0);
        }
        if read.last_clock < read.first_clock {
            return wrong("the last clock", read.last_clock.0);
        }
        Ok(read)
    }

    /// Reads the batch at the start of `bytes`, which may be longer: returns the
    /// header, and the payload if its checksum is correct. EL-2
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn read(bytes: &[u8]) -> Result<(Self, &[u8]), BatchError> {
        let header = Self::peek(bytes)?;
        let batch = bytes
            .get(..header.batch_bytes())
            .ok_or(BatchError::Short(bytes.len()))?;
        let checksum = u32::from_le_bytes([batch[0], batch[1], batch[2], batch[3]]);
        if checksum::append(0, &batch[4..]) != checksum {
            return Err(BatchError::Checksum);
        }
        Ok((header, &batch[HEADER_BYTES..]))
    }
}
