//! The protocol's core, explored exhaustively: no rule is violated, and each planted bug is found.

use refrain_sim::explorer::Exploration;
use refrain_sim::model::{Bug, Joining, Reading, Size, run};

const BUGS: [Bug; 8] = [
    Bug::GateOpen,
    Bug::QuorumOfOne,
    Bug::AnyIncarnation,
    Bug::NoFence,
    Bug::SurveyOfOne,
    Bug::ShortestAnswer,
    Bug::RunsAtOnce,
    Bug::TrimAtNewest,
];

/// Checks one size. `states_min`: minimum number of states; fewer mean that no faults occur.
fn holds(name: &str, states_min: u64) -> Exploration {
    let size = Size::named(name).expect("a name of the list");
    let found = run(&size);
    assert_eq!(found.counterexample, None, "{name}: {found}");
    assert!(found.states >= states_min, "{name}: {found}");
    println!("{name}: {found}");
    found
}

/// Two crashes at all moments, one receive from any source.
// GATE-1, GATE-3, EL-1, EL-3, EL-5, FENCE-1
#[test]
fn one_receive_and_two_crashes() {
    let found = holds("small", 1_000);
    assert_eq!(found, run(&Size::small()), "it is the same each time");
}

/// The required size: three ranks, two receives from any source, two crashes, three loggers.
// GATE-1, GATE-2, GATE-3, EL-1, EL-3, EL-5, FENCE-1
#[test]
fn two_receives_and_two_crashes() {
    holds("full", 10_000);
}

/// Determinants that either of two checkpoint generations needs are not trimmed.
// GC-1, EL-5
#[test]
fn trimming_leaves_what_the_older_checkpoint_needs() {
    holds("checkpoints", 10_000);
}

/// Takes minutes; run by `cargo test --release -p refrain-sim -- --ignored`.
#[test]
#[ignore = "minutes: for a release build"]
fn everything_that_is_promised() {
    for name in ["faults", "chain"] {
        holds(name, 100_000);
    }
}

/// Each planted bug violates a rule.
#[test]
fn planted_bugs_are_found() {
    for bug in BUGS {
        let mut size = match bug {
            Bug::TrimAtNewest => Size::checkpoints(),
            _ => Size::small(),
        };
        size.stale_acks = bug == Bug::AnyIncarnation;
        size.bug = Some(bug);
        let found = run(&size);
        let example = found.counterexample.as_ref();
        let example = example.unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?}: {found}");
        assert!(!example.trace.is_empty() && !example.rule.is_empty());
    }
}

/// Planted: replicas that admit lives by `first_kept` alone, without marks, may be counted with
/// determinants of another life (see docs/design/model-checking.md).
// EL-3, EL-5, FENCE-1
#[test]
fn lives_that_leave_no_mark_are_found() {
    let size = Size {
        joining: Joining::FirstKept,
        reading: Reading::AnyOfEveryQuorum,
        ..Size::small()
    };
    let found = run(&size);
    let example = found.counterexample.expect("it is found");
    assert!(example.rule.starts_with("GATE-1, EL-5"), "{}", example.rule);
    assert!(example.trace.len() <= 16, "{:?}", example.trace);
}
