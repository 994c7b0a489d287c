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
