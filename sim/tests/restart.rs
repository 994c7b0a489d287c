//! Restarts of real engines, explored exhaustively: no rule is broken, and each
//! planted bug of the exchange is found.

use refrain_sim::plan::Operation;
use refrain_sim::planted::Planted;
use refrain_sim::world::explored::{Size, run};

/// Bugs that the explorer must find, each in the restarts of one size.
const PLANTED: [(Planted, &str); 14] = [
    (Planted::RestartTooFar, "pair"),
    (Planted::VoidForgotten, "pair"),
    (Planted::FenceLeaks, "pair"),
    (Planted::MatchNotAsked, "pair"),
    (Planted::UpWithoutDown, "order"),
    (Planted::StaleDown, "order"),
    (Planted::RestartFromStart, "freed"),
    (Planted::DuplicateCounts, "freed"),
    (Planted::FreedBeforeStable, "freed"),
    (Planted::ReceivedForgotten, "freed"),
    (Planted::LogLeftOut, "saved"),
    (Planted::UnreceivedSaved, "saved"),
    (Planted::GateOpenLater, "any"),
    (Planted::LastRecordLost, "any"),
];

/// Checks one size. `states_min`: minimum number of states; fewer mean that no deaths occur.
fn holds(name: &str, size: &Size, states_min: u64) {
    let found = run(size);
    assert_eq!(found.counterexample, None, "{name}: {found}");
    assert!(found.states >= states_min, "{name}: {found}");
    println!("{name}: {found}");
}

/// One death at any moment, of any rank, with and without checkpoints.
// REC-3
// REC-4
// REC-6
// REC-7
#[test]
fn one_death_at_any_moment() {
    for name in Size::NAMES {
        let mut size = Size::named(name).expect("a name of the list");
        size.deaths = 1;
        holds(name, &size, 150);
    }
}

/// Both ranks may be dead at once, and one may die two times.
// REC-3
// REC-6
#[test]
fn two_deaths_of_two_ranks() {
    let size = Size {
        programs: vec![vec![Operation::SendMatched(1)], vec![Operation::From(0)]],
        ..Size::order()
    };
    holds("little", &size, 100);
}

/// Takes minutes; run by `cargo test --release -p refrain-sim -- --ignored`, and by
/// `refrain-sim --explore restart`.
// REC-3
// REC-4
// REC-6
// REC-7
// GC-1
// LOG-5
#[test]
#[ignore = "minutes: for a release build"]
fn two_deaths_in_every_size() {
    for name in Size::NAMES {
        let size = Size::named(name).expect("a name of the list");
        holds(name, &size, 1_000);
    }
}

/// Each planted bug violates a rule.
#[test]
fn planted_bugs_are_found() {
    for (bug, size) in PLANTED {
        let mut size = Size::named(size).expect("a name of the list");
        size.planted = Some(bug);
        let found = run(&size);
        let example = found.counterexample.as_ref();
        let example = example.unwrap_or_else(|| panic!("{bug:?} is not found: {found}"));
        println!("{bug:?}: {found}");
        assert!(!example.trace.is_empty() && !example.rule.is_empty());
    }
}
