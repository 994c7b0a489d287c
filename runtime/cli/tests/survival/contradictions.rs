//! A program that does not do the same again is stopped, and told which operation
//! differs.

use crate::batch::{Batch, DEATH};
use crate::program;

/// Rank 0 sends what depends on its process, the time or an address; with another
/// tag; or does something else than records tell.
// REC-8
#[test]
fn a_program_that_is_not_piecewise_deterministic_is_stopped() {
    let mut batch = Batch::new("contradictions");
    let survivor = program::path();
    for (how, words) in [
        ("number", "operation 1 "),
        ("time", "message 0 to rank 1"),
        ("address", "message 0 to rank 1"),
        ("tag", "has context 0, tag 1"),
        ("operation", "operation 2 "),
    ] {
        for clock in [9, 20] {
            let options = format!("--kill 0@clock={clock}");
            let ended = batch.run_program(2, &options, &[&survivor, "stray", how]);
            assert_eq!(ended.status, Some(1), "{how}: {ended:?}");
            for words in ["is not what this rank did in the life before", words] {
                assert!(ended.err.contains(words), "{how}, {words:?}: {ended:?}");
            }
        }
    }
    // The same program that does what it did goes on.
    let ended = batch.run_program(2, "--kill 0@clock=20", &[&survivor, "stray", "not"]);
    assert_eq!(ended.expect(0).err.matches(DEATH).count(), 1);
    batch.finish(1);
}

/// A program that probes in its later life only has no record of that, and its peer
/// has what the earlier life sent behind it.
// REC-9
#[test]
fn an_event_that_the_earlier_life_did_not_have_is_found() {
    let mut batch = Batch::new("an event of a later life only");
    let survivor = program::path();
    let options = "--kill 0@clock=20";
    let ended = batch.run_program(2, options, &[&survivor, "stray", "probe"]);
    assert_eq!(ended.status, Some(1), "{ended:?}");
    for words in [
        "has no record, but rank 1 has",
        "did not make this operation",
    ] {
        assert!(ended.err.contains(words), "{words:?}: {ended:?}");
    }
    batch.finish(1);
}
