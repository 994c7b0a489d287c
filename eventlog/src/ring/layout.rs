//! Offsets of the fields and batches of a ring.

use crate::LoggerId;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, BatchHeader, job_tag};
use refrain_ring::{Incarnation, Rank};

/// First word of a ring: "rfrnevt" and the version of its layout.
pub const RING_MAGIC: u64 = u64::from_le_bytes(*b"rfrnevt\x01");
/// Bytes of the control page.
pub const CONTROL_BYTES: usize = 4096;
/// Bytes for batches.
pub const DATA_BYTES: usize = 256 << 10;
/// Bytes of the whole file.
pub const RING_BYTES: usize = CONTROL_BYTES + DATA_BYTES;
/// Batches begin at multiples of this.
pub const LINE_BYTES: usize = 64;

const _: () = assert!(DATA_BYTES.is_multiple_of(LINE_BYTES) && DATA_BYTES >= 2 * BATCH_BYTES_MAX);
const _: () = assert!(BATCH_BYTES_MAX.is_multiple_of(LINE_BYTES));

/// Offsets of the words of the control page.
pub(super) mod word {
    pub const MAGIC: usize = 0;
    pub const JOB: usize = 8;
    pub const RANK: usize = 16;
    pub const LOGGER: usize = 24;
    pub const START: usize = 32;
    pub const CONSUMED: usize = 64;
    pub const DURABLE_CLOCK: usize = 72;
    pub const DURABLE_END: usize = 80;
    pub const CLOSED: usize = 88;
    pub const SLEEPS: usize = 128;
}

/// The owner of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingIdentity {
    /// The job.
    pub job: u64,
    /// The client's rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The logger.
    pub logger: LoggerId,
    /// One past the last determinant that the logger had when it made the ring. The client
    /// continues at this number or a lower one.
    pub start: EventIndex,
}

impl RingIdentity {
    /// Whether a batch is of this client in this life.
    #[inline]
    pub fn is_of(&self, batch: &BatchHeader) -> bool {
        batch.rank == self.rank
            && batch.incarnation == self.incarnation
            && batch.job_tag == job_tag(self.job)
    }
}

/// A position in a ring, in bytes since its beginning; never decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

impl Cursor {
    /// Offset in the data of the batch at this position.
    pub fn offset(self) -> usize {
        (self.0 % DATA_BYTES as u64) as usize
    }

    /// The position behind a batch of that length.
    #[must_use]
    pub fn after(self, batch_bytes: usize) -> Self {
        let end = self.0 + batch_bytes.next_multiple_of(LINE_BYTES) as u64;
        let offset = end % DATA_BYTES as u64;
        let left = DATA_BYTES as u64 - offset;
        if offset != 0 && left < BATCH_BYTES_MAX as u64 {
            return Self(end + left);
        }
        Self(end)
    }

    /// Whether a batch of that length at this position would overwrite bytes that are not
    /// consumed.
    pub fn is_full(self, batch_bytes: usize, consumed: Cursor) -> bool {
        let end = self.0 + batch_bytes.next_multiple_of(LINE_BYTES) as u64;
        end.saturating_sub(consumed.0) > DATA_BYTES as u64
    }
}
