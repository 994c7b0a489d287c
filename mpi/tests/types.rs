//! Programs in C that use datatypes: what calls report, what messages carry, and recovery.

#[path = "../../capi/tests/built/mod.rs"]
mod built;

mod program;

use program::program;

#[test]
fn calls_report_what_the_standard_says() {
    let Some(program) = program("tests/programs/types.c") else {
        return;
    };
    let ended = program.run().expect_success();
    assert_eq!(ended.out, "0 failures\n", "{}", ended.err);
}

#[test]
fn derived_types_carry_their_data_and_are_replayed() {
    let Some(program) = program("tests/programs/derived.c") else {
        return;
    };
    let lines = |options: &str| {
        let ended = program.job(3, options, "").expect_success();
        let mut lines: Vec<_> = ended.out.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        (lines, ended.deaths())
    };
    let (expected, _) = lines("--protocol none");
    assert_eq!(expected.len(), 3, "{expected:?}");
    assert!(
        expected.iter().all(|line| line.contains(": 0 failures, ")),
        "{expected:?}"
    );
    for kills in ["1@clock=40", "0@clock=100", "2@clock=30,0@clock=150"] {
        let options = format!("--protocol pessimist --kill {kills}");
        let (same, deaths) = lines(&options);
        assert_eq!(same, expected, "{options}");
        assert_eq!(deaths, kills.split(',').count(), "{options}");
    }
}
