//! There are no orphans.

use super::super::orphan::{Again, Orphans};
use super::*;
use refrain_logging::determinant::{Determinant, Match, Matched};

const REQUESTS: [Clock; 3] = [Clock(3), Clock(1), Clock(2)];

/// Rank 0 sent two messages and printed two words; others have seen the first of each. It also had
/// some events.
fn stage() -> Stage<Orphans> {
    let mut stage = Stage::new(Orphans::new(2));
    for event in events() {
        stage.event(0, event).unwrap();
    }
    for number in [0, 1] {
        stage.called(0, 9, &isend(0, number, 30)).unwrap();
        stage.called(0, 9, &Call::Print(number)).unwrap();
    }
    let frame = first_frame(0, 0, 24, 30);
    stage.posted(0, &frame, &[]).unwrap();
    stage.see(Happening::Seen(life(0), 0)).unwrap();
    stage.world.stable = Some(Clock(9));
    stage
}

fn events() -> [Event<'static>; 6] {
    [
        wildcard_match(4, 1, 0),
        nothing(5),
        Event::Probe {
            clock: Clock(6),
            source: Rank(1),
            ssn: Ssn(1),
            tag: 4,
            bytes: 5,
        },
        Event::Completion {
            clock: Clock(7),
            requests: &REQUESTS,
        },
        nothing(8),
        nothing(9),
    ]
}

fn again() -> Again {
    let message = |number| (Rank(1), 3, payload(0, number, 30));
    Again {
        sent_before: vec![Ssn(0), Ssn(0)],
        sent: vec![message(0), message(1)],
        printed_before: 0,
        printed: vec![0, 1],
    }
}

/// What others have seen is emitted again; the rest may be missing or differ.
// REC-5
#[test]
fn what_was_seen_is_made_again() {
    let stage = stage();
    let judge = |again: &Again| stage.oracle.judge_again(Rank(0), again, false);
    judge(&again()).unwrap();
    let mut less = again();
    less.sent.pop();
    less.printed.pop();
    judge(&less).unwrap();
    let mut other = again();
    other.sent[1].2[29] ^= 1;
    other.printed[1] = 7;
    judge(&other).unwrap();
    // A replay from a checkpoint after all emissions.
    let before = Again {
        sent_before: vec![Ssn(0), Ssn(1)],
        printed_before: 1,
        ..Again::default()
    };
    judge(&before).unwrap();
    assert_eq!(stage.oracle.seen(Rank(0)), [0]);
    assert_eq!(stage.oracle.posted(Rank(0), Rank(1)), 1);
}

/// An orphan: a message or word that the replay does not emit again, or emits differently.
// REC-5, REC-8
#[test]
fn orphans_are_found() {
    let stage = stage();
    let judge = |again: &Again| stage.oracle.judge_again(Rank(0), again, false);
    let mut lost = again();
    lost.sent.clear();
    assert_breach(judge(&lost), "orphan", "may have seen 1");
    let mut other = again();
    other.sent[0].2[29] ^= 1;
    assert_breach(judge(&other), "orphan", "another message 0");
    let mut tag = again();
    tag.sent[0].1 = 4;
    assert_breach(judge(&tag), "orphan", "another message 0");
    let mut silent = again();
    silent.printed.clear();
    assert_breach(judge(&silent), "orphan", "the output was");
    let mut word = again();
    word.printed[0] = 1;
    assert_breach(judge(&word), "orphan", "the output was");
}

/// Held determinants equal the events, also if merged, counted or split.
// EL-5, REC-2
#[test]
fn what_is_held_is_what_happened() {
    let stage = stage();
    let judge = |held: &[Determinant]| stage.oracle.judge_held(Rank(0), held, None, &stage.world);
    let all: Vec<Determinant> = events().iter().map(determinant).collect();
    judge(&all).unwrap();
    let merged_runs: Vec<Determinant> = all[..4]
        .iter()
        .filter(|held| !matches!(held, Determinant::Nothing { .. }))
        .cloned()
        .collect();
    judge(&merged_runs).unwrap();
    let part = |requests: &[Clock], continues| Determinant::Completion {
        at: Clock(7),
        requests: requests.to_vec(),
        continues,
    };
    let mut parts = merged_runs.clone();
    parts[2] = part(&REQUESTS[..1], true);
    parts.push(part(&REQUESTS[1..], false));
    judge(&parts).unwrap();
    // A part whose end is not stable is ignored: the next life ran the operation anew. REC-4
    parts.pop();
    let stable = World {
        stable: Some(Clock(7)),
        ..World::default()
    };
    let judged = stage.oracle.judge_held(Rank(0), &parts, None, &stable);
    judged.unwrap();
    // Each of these is a known bug of an implementation: a set cut to one item, the order of a set,
    // another message, a failed probe, only the first determinant of a batch.
    let mut cut = merged_runs.clone();
    cut[2] = part(&REQUESTS[..1], false);
    assert_breach(judge(&cut), "orphan", "outcome 7");
    let mut turned = merged_runs.clone();
    turned[2] = part(&[Clock(1), Clock(3), Clock(2)], false);
    assert_breach(judge(&turned), "orphan", "outcome 7");
    let mut other = merged_runs.clone();
    other[0] = determinant(&wildcard_match(4, 1, 1));
    assert_breach(judge(&other), "orphan", "match 1");
    let mut failed = merged_runs.clone();
    failed[1] = determinant(&nothing(6));
    assert_breach(judge(&failed), "orphan", "outcome 6");
    assert_breach(judge(&merged_runs[..1]), "orphan", "has no record");
    let mut twice = merged_runs.clone();
    twice.push(determinant(&wildcard_match(9, 1, 0)));
    assert_breach(judge(&twice), "orphan", "two matches");
    let mut early = merged_runs.clone();
    early.push(determinant(&nothing(6)));
    assert_breach(judge(&early), "orphan", "comes after clock");
}

/// Determinants that are not stable may be missing, and so may those before the checkpoint.
// EL-5, GC-1
#[test]
fn what_is_not_stable_or_superseded_may_be_missing() {
    let mut stage = stage();
    stage.world.stable = Some(Clock(5));
    let first = Determinant::Match(Match {
        at: Clock(4),
        matched: Matched {
            request: Clock(1),
            source: Rank(0),
            ssn: Ssn(0),
        },
        is_named: false,
        is_completed: true,
    });
    let judge = |stage: &Stage<Orphans>, held: &[Determinant], after: Option<u64>| {
        let after = after.map(Clock);
        stage.oracle.judge_held(Rank(0), held, after, &stage.world)
    };
    // The receive was not completed at 4.
    assert_breach(judge(&stage, &[first], None), "orphan", "outcome 4");
    let first = determinant(&wildcard_match(4, 1, 0));
    judge(&stage, &[first], None).unwrap();
    assert_breach(judge(&stage, &[], None), "orphan", "match 1");
    judge(&stage, &[], Some(4)).unwrap();
    stage.world.stable = Some(Clock(9));
    judge(&stage, &[], Some(7)).unwrap();
    assert_breach(judge(&stage, &[], Some(6)), "orphan", "outcome 7");
}

/// Emissions of a replaced life need not be made again.
// FENCE-1
#[test]
fn a_life_that_was_replaced_has_no_orphans() {
    let mut stage = stage();
    stage.see(Happening::Began(next_life())).unwrap();
    stage.posted(0, &first_frame(0, 1, 24, 30), &[]).unwrap();
    stage.see(Happening::Seen(life(0), 1)).unwrap();
    assert_eq!(stage.oracle.posted(Rank(0), Rank(1)), 1);
    assert_eq!(stage.oracle.seen(Rank(0)), [0]);
}
