//! Memory that a program has never written, and its addresses, are the same in each life: a rank
//! that sends them and is killed sends the same bytes again (REC-8).
//!
//! `REFRAIN_SAME_MEMORY_SEEDS=7,8` adds jobs that are killed at random.

mod built;

use built::Program;

/// Programs and the memory that they send, each with the setting without which it differs.
const SINS: [(&str, &str, &str); 7] = [
    ("tests/programs/unwritten.c", "stack", "heap,addresses"),
    ("tests/programs/unwritten.c", "deep", "heap,addresses"),
    ("tests/programs/unwritten.c", "calls", "heap,addresses"),
    ("tests/programs/unwritten.c", "errors", "heap,addresses"),
    ("tests/programs/unwritten.c", "heap", "stack,addresses"),
    ("tests/programs/unwritten.c", "dummy", "stack,addresses"),
    ("tests/programs/pointers.c", "", "heap,stack"),
];

/// With all settings all bytes are equal, and sends were compared.
#[track_caller]
fn is_the_same(program: &Program, options: &str, arguments: &str) {
    let options = format!("--protocol pessimist --divergence stop {options}");
    let ended = program.job(3, &options, arguments).expect_success();
    assert!(ended.deaths() > 0, "{options} {arguments}: {}", ended.err);
    assert!(ended.compared() > 0, "{options} {arguments}: {}", ended.err);
}

// REC-8
#[test]
fn memory_that_was_never_written_is_the_same_in_the_next_life() {
    for (source, sin, _) in SINS {
        let Some(program) = Program::of(source) else {
            return;
        };
        for options in [
            "--kill 1@clock=90",
            "--kill 0@clock=150,2@clock=150",
            "--kill 1@clock=90 --record-clocks off",
        ] {
            is_the_same(&program, options, &format!("{sin} 60"));
        }
    }
}

/// Each of the settings is needed.
// REC-8
#[test]
fn without_one_of_the_means_the_next_life_differs() {
    for (source, sin, means) in SINS {
        let Some(program) = Program::of(source) else {
            return;
        };
        let options = format!(
            "--protocol pessimist --divergence stop --same-memory {means} --kill 1@clock=90"
        );
        let ended = program.job(3, &options, &format!("{sin} 60"));
        assert_ne!(ended.status, Some(0), "{sin} with {means}: {}", ended.err);
        let differs = ended.err.contains("has other bytes");
        assert!(differs, "{sin} with {means}: {}", ended.err);
    }
}

// REC-8
#[test]
fn memory_is_the_same_however_often_a_rank_is_killed() {
    let more = std::env::var("REFRAIN_SAME_MEMORY_SEEDS").unwrap_or_default();
    for seed in more.split(',').filter(|seed| !seed.is_empty()) {
        for (source, sin, _) in SINS {
            let Some(program) = Program::of(source) else {
                return;
            };
            // Descriptors that stay open must end below those of the library.
            let (every_s, rounds) = match sin {
                "" => (0.07, 1900),
                _ => (0.3, 20000),
            };
            let kills = format!("--kill-random {every_s},{seed} --max-restarts 10000");
            is_the_same(&program, &kills, &format!("{sin} {rounds}"));
        }
    }
}
