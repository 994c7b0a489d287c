//! Programs in C whose messages have other bytes in each life: which of them continue, which are
//! stopped, and what the job reports. REC-8

mod built;

use built::{Ended, Program};

/// The exit status of a job in which replayed messages differ.
const DIFFERED: i32 = 80;

fn program() -> Option<Program> {
    Program::of("tests/programs/garbage.c")
}

/// Rank 0 dies in the middle, and rank 1 after the replay of rank 0.
const KILLS: &str = "--protocol pessimist --kill 0@clock=40,1@clock=70";

/// Keeps the garbage different in each life.
const AS_IT_IS: &str = "--record-clocks off --same-memory none";

#[track_caller]
fn run(program: &Program, options: &str, kind: &str) -> Ended {
    program.job(2, &format!("{KILLS} {AS_IT_IS} {options}"), kind)
}

#[track_caller]
fn assert_says(ended: &Ended, words: &[&str]) {
    for words in words {
        assert!(ended.err.contains(words), "{words:?}: {}", ended.err);
    }
}

/// Padding, unused words and timings: the job continues to its end, reports the differences, and
/// has an exit status of its own. Messages to rank 1 are the same in its later life, although rank
/// 0 has made other bytes meanwhile: no answer of rank 1 differs.
// REC-8
#[test]
fn bytes_that_mean_nothing_do_not_stop_a_job() {
    let Some(program) = program() else { return };
    for (kind, words) in [
        ("padding", "24 bytes) has other bytes at 4..7, 20..23"),
        (
            "structs",
            "2400 bytes) has other bytes at 4..7, 20..23, 28..31",
        ),
        (
            "word",
            "message 0 to rank 1 (context 0, tag 1, 4 bytes) has other bytes at 0..3",
        ),
        ("timing", "8 bytes) has other bytes at"),
        ("timings", "104 bytes) has other bytes at"),
    ] {
        let ended = run(&program, "", kind);
        assert_eq!(ended.status, Some(DIFFERED), "{kind}: {}", ended.err);
        assert_eq!(ended.out, "garbage: 40 rounds\n");
        assert_eq!(ended.deaths(), 2, "{kind}: {}", ended.err);
        assert_says(&ended, &[words, "rank 0 sent other bytes in its replay"]);
        assert_says(&ended, &["the replay of rank 0 sent other bytes"]);
        assert!(!ended.err.contains("rank 1 sent other"), "{}", ended.err);
    }
    let ended = run(&program, "", "none").expect_success();
    assert_eq!(ended.deaths(), 2, "{}", ended.err);
    assert!(!ended.err.contains("differ"), "{}", ended.err);
}

/// The differences of a rank that dies again, also in its replay, are reported once, and once for
/// the job. Rank 1 dies after all of that and gets the messages of its first life.
// REC-6, REC-8
#[test]
fn bytes_of_the_first_life_outlive_several_deaths() {
    let Some(program) = program() else { return };
    for (of_0, of_1) in [("20,10,30", "35"), ("20,12", "20,30"), ("20,19,20", "0")] {
        let options = format!("--protocol pessimist --max-restarts 20 {AS_IT_IS}");
        let ended = program.job(2, &options, &format!("padding 40 {of_0} {of_1}"));
        assert_eq!(ended.status, Some(DIFFERED), "{}", ended.err);
        let last_life = format!("incarnation {} continues", of_0.split(',').count());
        assert!(ended.err.contains(&last_life), "{}", ended.err);
        for words in [
            "rank 0 sent other bytes in its replay",
            "the replay of rank 0 sent other bytes",
        ] {
            assert_eq!(ended.err.matches(words).count(), 1, "{}", ended.err);
        }
        assert!(!ended.err.contains("rank 1 sent other"), "{}", ended.err);
    }
}

/// Random numbers that are seeded by the clock make another history.
// REC-8
#[test]
fn another_history_is_stopped() {
    let Some(program) = program() else { return };
    for kind in ["doubles", "keys", "small"] {
        let ended = run(&program, "", kind);
        assert_eq!(ended.status, Some(1), "{kind}: {}", ended.err);
        let words = "too large to be padding";
        assert_says(&ended, &[words, "--divergence warn", "--record-clocks"]);
        let ended = run(&program, "--divergence warn", kind);
        assert_eq!(ended.status, Some(DIFFERED), "{kind}: {}", ended.err);
        assert_says(&ended, &["rank 0 sent other bytes in its replay"]);
        assert!(!ended.err.contains("rank 1 sent other"), "{}", ended.err);
    }
}

/// With `stop`, any differing byte stops the rank; a differing length does so with all policies.
// REC-8
#[test]
fn differences_that_stop_a_rank() {
    let Some(program) = program() else { return };
    for (kind, policy, words) in [
        (
            "padding",
            "stop",
            "24 bytes) has other bytes at 4..7, 20..23",
        ),
        ("timing", "stop", "has other bytes at"),
        ("length", "stop", "bytes now"),
        ("length", "auto", "bytes now"),
        ("length", "warn", "bytes now"),
    ] {
        let ended = run(&program, &format!("--divergence {policy}"), kind);
        assert_eq!(ended.status, Some(1), "{kind}: {}", ended.err);
        assert_says(
            &ended,
            &["is not what this rank did in its earlier life", words],
        );
    }
}
