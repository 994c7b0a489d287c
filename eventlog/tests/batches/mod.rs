//! Batches whose bytes all follow from their writer and their numbers, so
//! that batches read back can be checked.

use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BatchHeader, HEADER_BYTES, job_tag};
use refrain_ring::{Clock, Incarnation, Rank};

/// The writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    pub job: u64,
    pub rank: u32,
    pub incarnation: u32,
}

impl Life {
    pub const fn new(job: u64, rank: u32, incarnation: u32) -> Self {
        Self {
            job,
            rank,
            incarnation,
        }
    }

    /// Its determinants `first` to `first + count`.
    pub fn batch(&self, first: u64, count: u16) -> Vec<u8> {
        self.batch_at(first, count, first.wrapping_mul(10))
    }

    /// The same, from a clock on.
    pub fn batch_at(&self, first: u64, count: u16, first_clock: u64) -> Vec<u8> {
        let payload_bytes = usize::from(count) * 2 + (first % 61) as usize;
        let header = BatchHeader {
            job_tag: job_tag(self.job),
            rank: Rank(self.rank),
            incarnation: Incarnation(self.incarnation),
            lives_before: 0,
            first: EventIndex(first),
            count,
            first_clock: Clock(first_clock),
            last_clock: Clock(first_clock + u64::from(count) - 1),
            payload_bytes: payload_bytes as u32,
        };
        let mut batch = vec![0; HEADER_BYTES];
        let salt = self.job ^ u64::from(self.rank) << 8 ^ u64::from(self.incarnation) << 16;
        batch.extend(
            (0..payload_bytes as u64)
                .map(|at| (salt ^ first.wrapping_add(at).wrapping_mul(37)) as u8),
        );
        header.seal(&mut batch);
        batch
    }
}
