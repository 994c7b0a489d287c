//! With the preloaded library, a program gets the same clocks and random bytes in each life as in
//! the first.

mod built;

use built::{Ended, Program, compiler, launcher};
use std::process::Command;

/// The questions of `programs/clocks.c`.
const QUESTIONS: [&str; 6] = ["seed", "time", "usage", "random", "process", "fork"];

fn program() -> Option<Program> {
    Program::of("tests/programs/clocks.c")
}

#[track_caller]
fn same_in_each_life(ended: Ended, why: &str) -> Ended {
    let ended = ended.expect_success();
    assert!(ended.compared() > 0, "{why}: {}", ended.err);
    for words in ["other bytes", "differ"] {
        assert!(!ended.err.contains(words), "{why}: {}", ended.err);
    }
    ended
}

// REC-4 REC-8
#[test]
fn a_later_life_is_answered_as_the_first() {
    let Some(program) = program() else { return };
    for question in QUESTIONS {
        let options = "--protocol pessimist --kill 1@clock=50,0@clock=70";
        let ended = program.job(3, options, &format!("{question} 40"));
        let ended = same_in_each_life(ended, question);
        assert_eq!(ended.deaths(), 2, "{question}: {}", ended.err);
    }
}

/// Each 256 random bytes are an operation.
// REC-4 REC-8
#[test]
fn random_bytes_that_signals_interrupt_are_whole_in_each_life() {
    let Some(program) = program() else { return };
    let options = "--protocol pessimist --kill 1@clock=1500,0@clock=1500";
    let ended = program.job(2, options, "interrupted 40");
    let ended = same_in_each_life(ended, "interrupted");
    assert_eq!(ended.deaths(), 2, "{}", ended.err);
}

/// Without the library, each question has another answer: so it makes the difference.
// REC-8
#[test]
fn without_records_each_answer_differs() {
    let Some(program) = program() else { return };
    for question in QUESTIONS {
        let options = "--protocol pessimist --record-clocks off --kill 1@clock=50";
        let ended = program.job(2, options, &format!("{question} 40"));
        assert!(ended.err.contains("other bytes"), "{question}: {ended:?}");
    }
}

/// Also with several later lives, killed at any moment.
// REC-4 REC-6
#[test]
fn answers_stay_the_same_over_many_lives() {
    let Some(program) = program() else { return };
    for question in ["seed", "time"] {
        let options = "--protocol pessimist --kill-random 0.3,5 --max-restarts 1000";
        let ended = program.job(3, options, &format!("{question} 400"));
        let ended = ended.expect_success();
        assert!(!ended.err.contains("other bytes"), "{}", ended.err);
    }
}

/// The shell is another program, so its questions are not recorded. Descriptors that the program
/// closes before it joins (question `seed`) are not missed.
// REC-4
#[test]
fn a_program_behind_a_wrapper_is_answered() {
    let Some(program) = program() else { return };
    for script in [
        r#"date >/dev/null; "$0" "$@"; exit $?"#,
        r#"date >/dev/null; exec "$0" "$@""#,
    ] {
        for question in ["seed", "process"] {
            let mut command = Command::new(launcher());
            command
                .args(["run", "--no-prefix", "-n", "2", "--protocol", "pessimist"])
                .args(["--kill", "1@clock=50", "--", "sh", "-c", script])
                .arg(program.path())
                .args([question, "40"]);
            let ended = same_in_each_life(built::end(&mut command), question);
            assert!(ended.err.contains("continues after"), "{}", ended.err);
        }
    }
}

/// Libraries that are preloaded already stay.
#[test]
fn the_user_s_own_preloaded_libraries_stay() {
    let mut command = Command::new(launcher());
    command
        .env("LD_PRELOAD", "libc.so.6")
        .args(["run", "--no-prefix", "-n", "1", "--protocol", "pessimist"])
        .args(["--", "sh", "-c", "echo $LD_PRELOAD"]);
    let ended = built::end(&mut command);
    let (mine, ours) = ended.out.trim().split_once(':').unwrap_or_default();
    assert_eq!(mine, "libc.so.6", "{ended:?}");
    assert!(ours.ends_with("/librefrain_clocks.so"), "{ended:?}");
}

/// With a protocol that does not recover, no library is preloaded. A static program cannot have
/// one, and this is reported.
#[test]
fn programs_that_are_not_served_run_as_ever() {
    let mut command = Command::new(launcher());
    command
        .env_remove("LD_PRELOAD")
        .args(["run", "-n", "1", "--protocol", "none"]);
    command.args(["--no-prefix", "--", "sh", "-c", "echo \"[$LD_PRELOAD]\""]);
    assert_eq!(built::end(&mut command).out, "[]\n");

    let Some(mut cc) = compiler("cc") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (
        folder.path().join("source.c"),
        folder.path().join("program"),
    );
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("written");
    cc.arg("-static").arg(&source).arg("-o").arg(&program);
    if !cc
        .output()
        .expect("the compiler was there")
        .status
        .success()
    {
        println!("skipped a static program: the static C library is not installed");
        return;
    }
    let mut command = Command::new(launcher());
    command
        .args(["run", "-n", "1", "--protocol", "pessimist", "--verbose"])
        .arg(&program);
    let ended = built::end(&mut command).expect_success();
    assert!(ended.err.contains("is linked statically"), "{ended:?}");
}
