//! Batches whose content follows from who wrote them: what is read back can be
//! checked without remembering it.

use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BatchHeader, HEADER_BYTES, PAYLOAD_BYTES_MAX, job_tag};
use refrain_ring::{Clock, Incarnation, Rank};

/// Which batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Which {
    pub job: u64,
    pub rank: u32,
    pub incarnation: u32,
    pub first: u64,
    pub count: u16,
    pub first_clock: u64,
    pub last_clock: u64,
}

impl Which {
    pub fn header(&self) -> BatchHeader {
        let mixed = (self.first ^ u64::from(self.rank) << 20 ^ u64::from(self.incarnation) << 40)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let payload_bytes = 1 + usize::from(self.count) * 2 + (mixed >> 60) as usize;
        BatchHeader {
            job_tag: job_tag(self.job),
            rank: Rank(self.rank),
            incarnation: Incarnation(self.incarnation),
            lives_before: 0,
            first: EventIndex(self.first),
            count: self.count,
            first_clock: Clock(self.first_clock),
            last_clock: Clock(self.last_clock),
            payload_bytes: payload_bytes.min(PAYLOAD_BYTES_MAX) as u32,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let header = self.header();
        let mut bytes = vec![0; header.batch_bytes()];
        let mark = self.first ^ u64::from(self.rank) << 3 ^ u64::from(self.incarnation) << 5;
        for (place, byte) in bytes[HEADER_BYTES..].iter_mut().enumerate() {
            *byte = (mark as usize + place) as u8;
        }
        header.seal(&mut bytes);
        bytes
    }
}
