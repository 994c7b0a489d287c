//! Batches for the tests.

use refrain_logging::determinant::batch::{BatchHeader, HEADER_BYTES};
use refrain_logging::determinant::record::{decode, encode};
use refrain_logging::determinant::recorder::{Identity, Recorder};
use refrain_logging::determinant::{Determinant, EventIndex, Match, Matched};
use refrain_ring::{Clock, Incarnation, Rank, Ssn};

pub const IDENTITY: Identity = Identity {
    job: 0x1122_3344_5566_7788,
    rank: Rank(5),
    incarnation: Incarnation(2),
};

pub fn recorder() -> Recorder {
    Recorder::new(IDENTITY, EventIndex(0))
}

pub fn matched(request: u64, source: u32, ssn: u64) -> Matched {
    Matched {
        request: Clock(request),
        source: Rank(source),
        ssn: Ssn(ssn),
    }
}

pub fn a_match(at: u64, request: u64, source: u32, ssn: u64) -> Determinant {
    match_of(at, matched(request, source, ssn), false)
}

fn match_of(at: u64, matched: Matched, is_completed: bool) -> Determinant {
    Determinant::Match(Match {
        at: Clock(at),
        matched,
        is_named: false,
        is_completed,
    })
}

pub fn merged(at: u64, request: u64, source: u32, ssn: u64) -> Determinant {
    match_of(at, matched(request, source, ssn), true)
}

pub fn completion(at: u64, requests: &[u64]) -> Determinant {
    Determinant::Completion {
        at: Clock(at),
        requests: requests.iter().map(|&request| Clock(request)).collect(),
        continues: false,
    }
}

pub fn cancelled(at: u64, request: u64) -> Determinant {
    Determinant::Cancelled {
        at: Clock(at),
        request: Clock(request),
    }
}

pub fn nothing(first: u64, at: u64, count: u64) -> Determinant {
    Determinant::Nothing {
        at: Clock(at),
        first: Clock(first),
        count,
    }
}

/// The header of a batch of these determinants.
pub fn header_of(row: &[Determinant], first: u64) -> BatchHeader {
    BatchHeader {
        job_tag: 7,
        rank: Rank(5),
        incarnation: Incarnation(2),
        lives_before: 0,
        first: EventIndex(first),
        count: row.len() as u16,
        first_clock: row[0].at(),
        last_clock: row[row.len() - 1].at(),
        payload_bytes: encode(row).len() as u32,
    }
}

/// A sealed batch of these determinants.
pub fn batch_of(row: &[Determinant], first: u64) -> Vec<u8> {
    let mut batch = vec![0; HEADER_BYTES];
    batch.extend(encode(row));
    header_of(row, first).seal(&mut batch);
    batch
}

/// Takes one batch and reads it; returns its payload's length, too.
pub fn take(recorder: &mut Recorder, flush: bool) -> Option<(BatchHeader, Vec<Determinant>)> {
    let mut batch = vec![0xaa; 10];
    let has_pending = recorder.has_pending(flush);
    let first = recorder.next();
    let header = recorder.take_batch(flush, &mut batch);
    assert_eq!(header.is_some(), has_pending);
    let header = header?;
    assert_eq!(batch.len(), header.batch_bytes());
    assert_eq!((header.first, header.end()), (first, recorder.next()));
    let (read, payload) = BatchHeader::read(&batch).expect("it was sealed");
    assert_eq!(read, header);
    Some((header, decode(&header, payload).expect("it was encoded")))
}

/// Takes all pending determinants.
pub fn take_all(recorder: &mut Recorder, flush: bool) -> Vec<Determinant> {
    core::iter::from_fn(|| take(recorder, flush))
        .flat_map(|(_, row)| row)
        .collect()
}
