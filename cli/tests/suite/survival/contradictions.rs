//! A program that diverges is stopped, with an error that names the operation that differs.

use super::batch::{Batch, DEATH};
use super::program;

/// Rank 0 sends data that depends on its process, the time or an address; or uses another tag; or
/// does something else than its records say.
// REC-8
#[test]
fn a_program_that_is_not_piecewise_deterministic_is_stopped() {
    let mut batch = Batch::new("contradictions");
    let survivor = program::path();
    // Options that would make numbers, times and addresses the same are turned off.
    for (how, policy, words) in [
        ("number", "stop", "operation 1 "),
        ("time", "stop", "message 0 to rank 1"),
        ("address", "stop", "message 0 to rank 1"),
        ("tag", "auto", "has context 0, tag 1"),
        ("tag", "warn", "has context 0, tag 1"),
        ("operation", "auto", "operation 2 "),
        ("operation", "warn", "operation 2 "),
    ] {
        for clock in [9, 20] {
            let options = format!(
                "--kill 0@clock={clock} --divergence {policy} --record-clocks off --same-memory none"
            );
            let ended = batch.run_program(2, &options, &[&survivor, "stray", how]);
            assert_eq!(ended.status, Some(1), "{how}: {ended:?}");
            for words in ["is not what this rank did in its earlier life", words] {
                assert!(ended.err.contains(words), "{how}, {words:?}: {ended:?}");
            }
        }
    }
    // The same program continues if it does not diverge.
    let ended = batch.run_program(2, "--kill 0@clock=20", &[&survivor, "stray", "not"]);
    assert_eq!(ended.expect(0).err.matches(DEATH).count(), 1);
    batch.finish(1);
}

/// A program that probes only in its later life has no record of the probe, and its peer has
/// messages that the earlier life sent after it.
// REC-9
#[test]
fn an_event_that_the_earlier_life_did_not_have_is_found() {
    let mut batch = Batch::new("an event of a later life only");
    let survivor = program::path();
    let options = "--kill 0@clock=20";
    let ended = batch.run_program(2, options, &[&survivor, "stray", "probe"]);
    assert_eq!(ended.status, Some(1), "{ended:?}");
    for words in [
        "has no record, but an earlier life of this rank sent message",
        "did not make this operation",
    ] {
        assert!(ended.err.contains(words), "{words:?}: {ended:?}");
    }
    batch.finish(0);
}

/// Differences in 8 bytes of each message cannot be explained: the rank continues, and the job
/// reports the differences, as text and as JSON, and has a special status.
// REC-8
#[test]
fn a_few_other_bytes_are_reported() {
    let mut batch = Batch::new("a few other bytes");
    let survivor = program::path();
    let file = batch.file("stats.json");
    let stats = format!("--stats-file {}", file.display());
    for policy in ["auto", "warn"] {
        let options =
            format!("--kill 0@clock=20 --divergence {policy} --record-clocks off {stats}");
        let ended = batch.run_program(2, &options, &[&survivor, "stray", "time"]);
        assert_eq!(ended.status, Some(80), "{ended:?}");
        for words in [
            "rank 0 sent other bytes in its replay than before: ",
            "; operation 1: message 0 to rank 1 (context 0, tag 0, 8 bytes) has other bytes at 0",
            "the replay of rank 0 sent other bytes than before: ",
            "--divergence stop",
        ] {
            assert!(ended.err.contains(words), "{words:?}: {ended:?}");
        }
        let text = std::fs::read(&file).expect("it was asked for");
        let stats: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let figures = &stats["recoveries"][0]["figures"];
        let count = |name: &str| figures[name].as_u64().expect("a number");
        let (compared, bytes) = (count("compared"), count("differing_bytes"));
        assert!(compared > 1, "{stats}");
        assert_eq!(count("compared_bytes"), 8 * compared, "{stats}");
        assert_eq!(count("differing"), compared, "{stats}");
        assert!((compared..=8 * compared).contains(&bytes), "{stats}");
        let words = format!("{compared} compared, {compared} differ in {bytes} bytes\n");
        assert!(ended.err.contains(&words), "{words:?}: {ended:?}");
        let first = &figures["first_difference"];
        assert_eq!(
            (&first["operation"], &first["receiver"]),
            (&1.into(), &1.into())
        );
        assert_eq!(first["ranges"][0][0], 0, "{stats}");
    }
    batch.finish(2);
}
