//! The reference has the same results.

use super::super::outcome::{History, Outcomes};
use super::*;
use crate::plan::Plan;
use crate::plan::generate::PlanOptions;
use crate::reference::tests::{ended, play};
use refrain_logging::determinant::{Determinant, Match};

/// A change to the observed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    /// The final state of rank 0 differs.
    State,
    /// The first word of rank 0 differs.
    Word,
    /// The first message of rank 0 differs.
    Payload,
    /// The tag of the first message of rank 0 differs.
    Tag,
    /// The last event of rank 0 is missing.
    Event,
}

/// The oracle's verdict on a whole job with one change.
fn judge(seed: u64, change: Change) -> Result<(), Breach> {
    let plan = Plan::generate(seed, &PlanOptions::default());
    let ended = ended(&plan, seed);
    let references = play(&plan, ended.choices).expect("it ends");
    let mut outcomes = Outcomes::new(plan.ranks);
    let world = World::default();
    let mut see = |happening: Happening<'_>| outcomes.see(&happening, &world);
    for (rank, reference) in (0..).zip(references) {
        let change = if rank == 0 { change } else { Change::Nothing };
        let life = life(rank);
        let mut records = ended.records[rank as usize].clone();
        if change == Change::Event {
            records.pop();
        }
        for record in &records {
            for event in events(record) {
                see(Happening::Event(life, event)).unwrap();
            }
        }
        for (number, sent) in reference.sends().iter().enumerate() {
            let is_first = number == 0;
            let mut payload = sent.payload.to_vec();
            if is_first && change == Change::Payload {
                payload[16] ^= 1;
            }
            let call = Call::Isend {
                to: sent.to,
                tag: sent.tag + i32::from(is_first && change == Change::Tag),
                payload,
                synchronous: false,
            };
            see(Happening::Called(life, sent.clock, &call)).unwrap();
        }
        for (number, word) in reference.prints().iter().enumerate() {
            let other = number == 0 && change == Change::Word;
            let call = Call::Print(word ^ u64::from(other));
            see(Happening::Called(life, Clock(0), &call)).unwrap();
        }
        see(Happening::Called(life, Clock(0), &Call::Finish)).unwrap();
    }
    let mut states: Vec<_> = ended.finals.iter().map(|it| Some(it.state)).collect();
    if change == Change::State {
        states[0] = states[0].map(|state| state ^ 1);
    }
    outcomes.judge(&plan, &states)
}

/// The events of an engine for one record.
fn events(record: &Determinant) -> Vec<Determinant> {
    match record {
        Determinant::Match(it) if it.is_completed => vec![
            Determinant::Match(Match {
                is_completed: false,
                ..*it
            }),
            Determinant::Completion {
                at: it.at,
                requests: vec![it.matched.request],
                continues: false,
            },
        ],
        other => vec![other.clone()],
    }
}

/// An unchanged job has the same results.
#[test]
fn the_reference_comes_to_the_same() {
    for seed in 0..30 {
        judge(seed, Change::Nothing).unwrap();
    }
}

/// Each change is found, in every job that it affects.
#[test]
fn what_comes_out_otherwise_is_found() {
    for (change, what) in [
        (Change::State, "final state"),
        (Change::Word, "word 0"),
        (Change::Payload, "send 0"),
        (Change::Tag, "send 0"),
    ] {
        let found = (0..20).filter_map(|seed| judge(seed, change).err());
        let found: Vec<Breach> = found.collect();
        assert!(found.len() >= 10, "{change:?}: {found:?}");
        assert!(
            found.iter().all(|breach| breach.what.contains(what)),
            "{found:?}"
        );
    }
    // The last event may concern a receive that is cancelled anyway.
    let found = (0..20).filter(|seed| judge(*seed, Change::Event).is_err());
    assert!(found.count() >= 10);
}

/// A part of a set at the end of a dead life's records is ignored: the next life ran the operation
/// anew.
// REC-4
#[test]
fn a_set_that_a_dead_life_left_unfinished_is_done_anew() {
    let mut happened = History::default();
    let set = |requests: &[u64], continues| Determinant::Completion {
        at: Clock(10),
        requests: requests.iter().copied().map(Clock).collect(),
        continues,
    };
    for part in [set(&[1], true), set(&[2], true), set(&[3, 1], false)] {
        happened.happen(part);
    }
    assert_eq!(happened.happened, [set(&[3, 1], false)]);
}
