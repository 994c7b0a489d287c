//! EL-2, EL-5, REC-2

use crate::batches::{completion, header_of, nothing};
use refrain_logging::determinant::batch::{BatchError, BatchHeader, HEADER_BYTES, job_tag};
use refrain_logging::determinant::record::encode;
use refrain_logging::determinant::recorded::recorded_events;
use refrain_logging::determinant::recorder::{Identity, Recorder};
use refrain_logging::determinant::row::{CollectError, determinants};
use refrain_logging::determinant::{Determinant, EventIndex};
use refrain_ring::recorded::{RecordedEvents, RecordedOutcome};
use refrain_ring::{Clock, Incarnation, Rank, Ssn};

const JOB: u64 = 7;
const RANK: Rank = Rank(2);

/// Batches of probes at these clocks; they are numbered from `first` on.
fn batches(life: u32, first: u64, clocks: &[&[u64]]) -> Vec<Vec<u8>> {
    let identity = Identity {
        job: JOB,
        rank: RANK,
        incarnation: Incarnation(life),
    };
    let mut recorder = Recorder::new(identity, EventIndex(first));
    let mut batch = |clocks: &&[u64]| {
        let mut bytes = Vec::new();
        for clock in *clocks {
            recorder.probed(Clock(*clock), Rank(1), Ssn(*clock), 3, 100);
        }
        recorder.take_batch(true, &mut bytes);
        bytes
    };
    clocks.iter().map(&mut batch).collect()
}

fn collect(batches: &[Vec<u8>], after: Option<u64>) -> Result<Vec<u64>, CollectError> {
    let bytes = batches.iter().map(Vec::as_slice);
    let all = determinants(RANK, JOB, bytes, after.map(Clock))?;
    Ok(all.iter().map(Determinant::at).map(|at| at.0).collect())
}

/// None, one, two and many in a batch; over two lives; behind a checkpoint.
// REC-2; known trap: of a batch only the first is kept
#[test]
fn determinants_come_in_order_and_complete() {
    assert_eq!(collect(&[], None).unwrap(), []);
    let many: Vec<u64> = (1 << 32..(1 << 32) + 50).collect();
    let mut all = batches(0, 0, &[&[1], &[2, 3], &many]);
    let expected: Vec<u64> = [1, 2, 3].into_iter().chain(many).collect();
    assert_eq!(collect(&all, None).unwrap(), expected);
    assert_eq!(collect(&all, Some(1)).unwrap(), expected[1..]);
    all.extend(batches(1, 53, &[&[1 << 33]]));
    assert_eq!(collect(&all, Some(1 << 32)).unwrap().len(), 50);
    // Determinants that the checkpoint covers may be trimmed.
    assert_eq!(collect(&all[1..], Some(2)).unwrap().len(), 52);
}

/// Missing, foreign and damaged batches are reported.
// EL-2, EL-5
#[test]
fn determinants_that_are_missing_are_missed() {
    let all = batches(0, 0, &[&[1], &[2, 3], &[4]]);
    let gap = CollectError::Gap {
        expected: EventIndex(1),
        found: EventIndex(3),
    };
    let without_second = [all[0].clone(), all[2].clone()];
    assert_eq!(collect(&without_second, None), Err(gap));
    let beginning = CollectError::Beginning(EventIndex(1));
    assert_eq!(collect(&all[1..], None), Err(beginning));
    let twice = [all[0].clone(), all[0].clone()];
    assert!(matches!(
        collect(&twice, None),
        Err(CollectError::Gap { .. })
    ));
    let mut older = batches(1, 0, &[&[1]]);
    older.extend(batches(0, 1, &[&[2]]));
    assert!(matches!(
        collect(&older, None),
        Err(CollectError::Foreign(_))
    ));
    let others = determinants(Rank(0), JOB, all.iter().map(Vec::as_slice), None);
    assert!(matches!(others, Err(CollectError::Foreign(_))));
    let other_job = determinants(RANK, 8, all.iter().map(Vec::as_slice), None);
    assert!(matches!(other_job, Err(CollectError::Foreign(_))));
    let mut torn = all;
    let last = torn[1].len() - 1;
    torn[1][last] ^= 1;
    let damage = CollectError::Batch(BatchError::Checksum);
    assert_eq!(collect(&torn, None), Err(damage));
}

/// A batch that a life wrote: of one determinant, which has this number.
fn sealed(life: u32, first: u64, determinant: Determinant) -> Vec<u8> {
    let row = [determinant];
    let header = BatchHeader {
        job_tag: job_tag(JOB),
        rank: RANK,
        incarnation: Incarnation(life),
        lives_before: 0,
        ..header_of(&row, first)
    };
    let mut batch = vec![0; HEADER_BYTES];
    batch.extend(encode(&row));
    header.seal(&mut batch);
    batch
}

fn part(at: u64, requests: &[u64]) -> Determinant {
    let Determinant::Completion { at, requests, .. } = completion(at, requests) else {
        unreachable!("it is one");
    };
    Determinant::Completion {
        at,
        requests,
        continues: true,
    }
}

fn recorded(batches: &[Vec<u8>]) -> RecordedEvents {
    let bytes = batches.iter().map(Vec::as_slice);
    let all = determinants(RANK, JOB, bytes, None).expect("they are complete");
    recorded_events(&all).expect("it can be true")
}

/// A set that a life recorded only in part completed again in the next life: the later
/// record is complete, and the part is not added to it.
// REC-4
#[test]
fn what_a_dead_life_left_of_a_set_is_not_used() {
    let ended =
        |requests: &[u64]| RecordedOutcome::Ended(requests.iter().copied().map(Clock).collect());
    let of_dead = || {
        vec![
            sealed(0, 0, part(10, &[1, 2])),
            sealed(0, 1, part(10, &[3])),
        ]
    };
    let mut anew = of_dead();
    anew.push(sealed(1, 2, completion(10, &[4, 1])));
    let is = ended(&[4, 1]);
    assert_eq!(recorded(&anew).at(Clock(10)), is);
    let mut nothing_found = of_dead();
    nothing_found.push(sealed(1, 2, nothing(10, 12, 3)));
    nothing_found.push(sealed(1, 3, completion(16, &[1])));
    let is = recorded(&nothing_found);
    assert_eq!(is.at(Clock(10)), RecordedOutcome::Nothing);
    assert_eq!(is.at(Clock(16)), ended(&[1]));
    // In one life the parts belong together.
    let mut whole = of_dead();
    whole.push(sealed(0, 2, completion(10, &[4])));
    let is = ended(&[1, 2, 3, 4]);
    assert_eq!(recorded(&whole).at(Clock(10)), is);
}
