//! Batches for tests: the payload is arbitrary and not decoded here.

use refrain_eventlog::LoggerId;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BatchHeader, HEADER_BYTES, job_tag};
use refrain_ring::{Clock, Incarnation, Rank};

pub const JOB: u64 = 0x1234_5678_9abc_def0;
pub const RANK: Rank = Rank(3);
pub const LOGGER: LoggerId = LoggerId(7);

/// A batch of `count` determinants, the last at clock `last_clock`.
pub fn batch(
    incarnation: u32,
    first: EventIndex,
    count: u16,
    last_clock: u64,
    payload_bytes: usize,
) -> (BatchHeader, Vec<u8>) {
    let header = BatchHeader {
        job_tag: job_tag(JOB),
        rank: RANK,
        incarnation: Incarnation(incarnation),
        lives_before: 0,
        first,
        count,
        first_clock: Clock(last_clock),
        last_clock: Clock(last_clock),
        payload_bytes: payload_bytes as u32,
    };
    let mut bytes = vec![first.0 as u8; HEADER_BYTES + payload_bytes];
    header.seal(&mut bytes);
    (header, bytes)
}
