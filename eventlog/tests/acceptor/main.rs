//! The acceptor against an oracle that keeps every determinant. FENCE-1, GATE-3,
//! GC-1

mod admission;
#[allow(dead_code, reason = "the acceptor sees headers only")]
#[path = "../store/batches.rs"]
mod batches;
#[path = "../fixed_seed/mod.rs"]
mod fixed_seed;
mod oracle;
mod subject;

use oracle::{Oracle, Outcome};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use refrain_eventlog::acceptor::Origin;
use refrain_ring::{Clock, Incarnation, Rank};
use subject::{Bug, Subject};

const JOB: u64 = 0x1234_5678_9abc_def0;
const RANK: Rank = Rank(3);

/// Where rows begin: where narrow numbers end, too.
const STARTS: [u64; 4] = [0, 1 << 32, u32::MAX as u64 - 7, u64::MAX - 2000];

#[derive(Clone, Debug)]
enum Step {
    Hello {
        above: i64,
    },
    Batch {
        above_end: i64,
        count: u16,
        life_above: i64,
        clock_above: i64,
        clocks: u64,
        is_copy: bool,
    },
    /// The latest batch again, or one before it.
    Again {
        back: usize,
        is_copy: bool,
    },
    Trim {
        below_last: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let near = || prop_oneof![6 => Just(0_i64), 1 => -6..=6_i64];
    let life = prop_oneof![8 => Just(0_i64), 1 => -2..=1_i64];
    let count = prop_oneof![3 => Just(1_u16), 3 => 2..6_u16, 1 => Just(1024_u16)];
    prop_oneof![
        2 => (-1..=2_i64).prop_map(|above| Step::Hello { above }),
        8 => (near(), count, life, near(), 0..5_u64, prop::bool::weighted(0.2)).prop_map(
            |(above_end, count, life_above, clock_above, clocks, is_copy)| Step::Batch {
                above_end,
                count,
                life_above,
                clock_above,
                clocks,
                is_copy,
            }
        ),
        2 => (0..4_usize, any::<bool>()).prop_map(|(back, is_copy)| Step::Again { back, is_copy }),
        1 => (0..20_u64).prop_map(|below_last| Step::Trim { below_last }),
    ]
}

fn run(start: u64, steps: &[Step], bug: Option<Bug>) -> Result<(), TestCaseError> {
    let mut subject = Subject::new(JOB, RANK, start, bug);
    let mut oracle = Oracle::new(start, 10);
    let mut latest = 0;
    let mut sent = Vec::new();
    for step in steps {
        match *step {
            Step::Hello { above } => {
                let incarnation = (i64::from(latest) + above).max(0) as u32;
                let said = subject.row.hello(RANK, Incarnation(incarnation));
                prop_assert_eq!(said.is_ok(), incarnation >= latest, "FENCE-1");
                latest = latest.max(incarnation);
                oracle.latest = latest;
            }
            Step::Batch {
                above_end,
                count,
                life_above,
                clock_above,
                clocks,
                is_copy,
            } => {
                let first = oracle.end().saturating_add_signed(above_end);
                let count = count.min((u64::MAX - first).min(1024) as u16);
                if count == 0 {
                    continue;
                }
                let first_clock = oracle.last_clock().saturating_add_signed(clock_above);
                let which = batches::Which {
                    job: JOB,
                    rank: RANK.0,
                    incarnation: (i64::from(latest) + life_above).max(0) as u32,
                    first,
                    count,
                    first_clock,
                    last_clock: first_clock + clocks,
                };
                sent.push(which);
                send(&mut subject, &mut oracle, which, is_copy)?;
            }
            Step::Again { back, is_copy } => {
                if let Some(&which) = sent.iter().rev().nth(back) {
                    send(&mut subject, &mut oracle, which, is_copy)?;
                }
            }
            Step::Trim { below_last } => {
                let clock = oracle.last_clock().saturating_sub(below_last);
                let (first, before) = oracle.trim(clock);
                let row = &mut subject.row;
                row.trim(Clock(clock));
                row.drop_before(
                    refrain_logging::determinant::EventIndex(first),
                    Clock(before),
                );
            }
        }
        let row = &subject.row;
        prop_assert!(row.is_sound(), "{row:?}");
        let ends = (row.first.0, row.end.0, row.last_clock.0, row.incarnation.0);
        let expected = (oracle.first(), oracle.end(), oracle.last_clock(), latest);
        prop_assert_eq!(ends, expected, "after {:?}", step);
    }
    Ok(())
}

fn send(
    subject: &mut Subject,
    oracle: &mut Oracle,
    which: batches::Which,
    is_copy: bool,
) -> Result<(), TestCaseError> {
    let origin = if is_copy {
        Origin::Replica
    } else {
        Origin::Writer
    };
    let expected = oracle.accept(&which, is_copy);
    let boundary = oracle.boundary_before_cut;
    let said = subject.accept(&which.header(), origin, boundary);
    prop_assert_eq!(Outcome::of(&said), expected, "{:?} {:?}", which, said);
    Ok(())
}

fn search(cases: u32, bug: Option<Bug>) -> Result<(), String> {
    let mut runner = TestRunner::new(fixed_seed::cases(cases));
    let steps = prop::collection::vec(step(), 1..60);
    let starts = prop::sample::select(&STARTS[..]);
    let found = runner.run(&(starts, steps), |(start, steps)| run(start, &steps, bug));
    found.map_err(|found| found.to_string())
}

#[test]
fn it_accepts_what_the_oracle_accepts() {
    if let Err(found) = search(3000, None) {
        panic!("{found}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for bug in Bug::ALL {
        let found = search(3000, Some(bug));
        assert!(found.is_err(), "nobody saw {bug:?}");
    }
}

#[test]
fn a_batch_of_another_job_is_refused() {
    let mut subject = Subject::new(JOB, RANK, 0, None);
    let which = batches::Which {
        job: JOB ^ 1,
        rank: RANK.0,
        incarnation: 0,
        first: 0,
        count: 1,
        first_clock: 20,
        last_clock: 20,
    };
    let said = subject.accept(&which.header(), Origin::Writer, None);
    assert!(said.is_err(), "{said:?}");
}
