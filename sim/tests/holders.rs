//! Events at ranks, explored exhaustively: no rule is violated, and each planted bug is found.

use refrain_sim::holders::{Bug, Size, run};

/// Bugs that the explorer must find, each in one size.
const BUGS: [(Bug, &str); 9] = [
    (Bug::GateOpen, "ticket-small"),
    (Bug::HoldersForgotten, "ticket-small"),
    (Bug::RestoredAtOnce, "ticket-small"),
    (Bug::TrimAtNewest, "ticket-saved"),
    (Bug::OwnCarriersForgotten, "causal-small"),
    (Bug::CarriedOnce, "causal-chain"),
    (Bug::RestoredAtOnce, "causal-small"),
    (Bug::HeldByOne, "ticket-both"),
    (Bug::HeldByOne, "causal-both"),
];

/// Checks one size. `states_min`: minimum number of states; fewer mean that no deaths occur.
fn holds(name: &str, states_min: u64) {
    let size = Size::named(name).expect("a name of the list");
    let found = run(&size);
    assert_eq!(found.counterexample, None, "{name}: {found}");
    assert!(found.states >= states_min, "{name}: {found}");
    println!("{name}: {found}");
}

/// Deaths at all moments, in jobs of two and of three ranks, with and without checkpoints: the sizes
/// that take no longer than seconds; `refrain-sim --explore` has all.
// TICKET-1, TICKET-2, TICKET-3, TICKET-4, GATE-1, GC-1, FENCE-1
#[test]
fn batches_go_to_senders() {
    for name in ["ticket-small", "ticket-two", "ticket-saved", "ticket-both"] {
        holds(name, 1_000);
    }
}

// CAUSAL-1, CAUSAL-2, CAUSAL-3, CAUSAL-4, TICKET-4, GC-1
#[test]
fn batches_go_with_messages() {
    for name in ["causal-small", "causal-saved", "causal-both"] {
        holds(name, 1_000);
    }
}

/// Each planted bug violates a rule.
#[test]
fn planted_bugs_are_found() {
    for (bug, name) in BUGS {
        let mut size = Size::named(name).expect("a name of the list");
        size.bug = Some(bug);
        let found = run(&size);
        let example = found.counterexample.as_ref();
        let example = example.unwrap_or_else(|| panic!("{bug:?} is not found: {found}"));
        println!("{bug:?}: {found}");
        assert!(!example.trace.is_empty() && !example.rule.is_empty());
    }
}
