//! Jobs of programs in C that use MPI: the same output with any ranks killed.

#[path = "../../capi/tests/built/mod.rs"]
mod built;

mod program;

use program::program;
use std::io::{Write as _, pipe};
use std::process::Command;
use std::thread;

/// The lines of a job, sorted, and the number of deaths.
fn lines(source: &str, ranks: u32, options: &str) -> Option<(Vec<String>, usize)> {
    let ended = program(source)?.job(ranks, options, "").expect_success();
    let mut lines: Vec<_> = ended.out.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    Some((lines, ended.deaths()))
}

/// Kills ranks in jobs of each size; what is printed stays the same.
#[track_caller]
fn same_with_kills(source: &str, sizes: &[u32], kills: &[&str]) {
    for ranks in sizes {
        let Some((expected, _)) = lines(source, *ranks, "--protocol none") else {
            return;
        };
        assert_eq!(expected.len(), *ranks as usize, "{expected:?}");
        for kills in kills {
            let options = format!("--protocol pessimist --kill {kills}");
            let (same, deaths) = lines(source, *ranks, &options).expect("it was built before");
            assert_eq!(same, expected, "{ranks} ranks, {options}");
            assert_eq!(deaths, kills.split(',').count(), "{ranks} ranks, {options}");
        }
    }
}

// REC-4 REC-8
#[test]
fn messages_are_replayed() {
    let kills = ["1@clock=30", "0@clock=200", "2@clock=100,0@clock=300"];
    same_with_kills("tests/programs/messages.c", &[3, 4], &kills);
}

// REC-4 REC-8 COLL-2 COLL-3
#[test]
fn collectives_on_all_communicators_are_replayed() {
    let kills = ["1@clock=20", "0@clock=60", "1@clock=40,0@clock=90"];
    same_with_kills("tests/programs/groups.c", &[2, 5], &kills);
}

#[test]
fn the_standard_input_is_read_again() {
    let Some(program) = program("tests/programs/input.c") else {
        return;
    };
    // More than a pipe holds.
    let numbers: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    let of = |options: &str| {
        let (input, mut to) = pipe().expect("a pipe");
        let mut command = program.command(2, options, "");
        let numbers = numbers.clone();
        let writer = thread::spawn(move || to.write_all(numbers.as_bytes()));
        let ended = built::end_with_input(command.stdin(input)).expect_success();
        drop(command);
        writer.join().expect("it ends").expect("all is read");
        let mut lines: Vec<_> = ended.out.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        (lines, ended.deaths())
    };
    let (expected, _) = of("--protocol none");
    for kills in ["0@clock=2", "0@clock=9000,1@clock=12000", "0@clock=20001"] {
        let (same, deaths) = of(&format!("--kill {kills}"));
        assert_eq!(same, expected, "{kills}");
        assert_eq!(deaths, kills.split(',').count(), "{kills}");
    }
}

// REC-4 REC-8
#[test]
fn sessions_are_replayed() {
    let kills = ["1@clock=5", "0@clock=16", "2@clock=9,1@clock=20"];
    same_with_kills("tests/programs/sessions.c", &[3], &kills);
}

// REC-4 REC-8 COLL-2
#[test]
fn requests_of_all_kinds_are_replayed() {
    // The program polls: how many operations it has differs.
    let kills = ["1@clock=20", "0@clock=50", "2@clock=30,0@clock=60"];
    same_with_kills("tests/programs/requests.c", &[3, 4], &kills);
}

// REC-4 REC-8 COLL-3
#[test]
fn agreements_and_partitioned_sends_are_kept_apart() {
    let kills = ["1@clock=4", "0@clock=6"];
    same_with_kills("tests/programs/agreements.c", &[2, 3], &kills);
    let expected = "rank 0: 0 dimensions, program 0";
    if let Some((lines, _)) = lines("tests/programs/agreements.c", 2, "") {
        assert_eq!(lines[0], expected);
    }
}

// REC-4 REC-8
#[test]
fn short_sends_need_no_receiver_and_no_room() {
    let Some(program) = program("tests/programs/short_sends.c") else {
        return;
    };
    for options in [
        "--protocol none --log-memory 1M",
        "--protocol pessimist",
        "--protocol pessimist --kill 0@clock=5000,1@clock=3000",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let go = folder.path().join("go");
        let ended = program.job(2, options, &go.to_string_lossy());
        let out = ended.expect_success().out;
        for line in ["rank 0: 0 wrong", "rank 1: 0 wrong"] {
            assert!(out.contains(line), "{options}: {out}");
        }
    }
}

#[test]
fn a_job_of_one_rank_needs_no_launcher() {
    let Some(program) = program("tests/programs/groups.c") else {
        return;
    };
    let ended = program.run().expect_success();
    assert_eq!(ended.out.lines().count(), 1, "{}", ended.out);
}

#[test]
fn another_launcher_is_noticed() {
    let Some(program) = program("tests/programs/groups.c") else {
        return;
    };
    let mut command = Command::new(program.path());
    let ended = built::end(command.env("OMPI_COMM_WORLD_SIZE", "4"));
    assert!(ended.err.contains("mpiexec"), "{}", ended.err);
}

// REC-8
#[test]
fn a_report_of_other_bytes_names_the_call() {
    let Some(program) = program("tests/programs/differs.c") else {
        return;
    };
    for (divergence, argument, status, call) in [
        ("auto", "", 80, "(MPI_Send on halo, context"),
        ("stop", "", 1, "MPI_Send on halo failed"),
        // The rank cannot continue, whatever the error handler.
        ("stop", "returned", 1, "MPI_Send on halo failed"),
    ] {
        let options = format!("--protocol pessimist --kill 0@clock=30 --divergence {divergence}");
        let ended = program.job(2, &options, argument);
        assert!(ended.err.contains(call), "{divergence}: {}", ended.err);
        assert_eq!(ended.status, Some(status), "{}", ended.err);
    }
}

#[test]
fn operators_may_ask_for_the_time() {
    let Some(program) = program("tests/programs/operator_time.c") else {
        return;
    };
    let ended = program.job(2, "", "").expect_success();
    for line in ["operator: 1", "end: 1"] {
        assert_eq!(ended.out.matches(line).count(), 2, "{}", ended.out);
    }
}

/// What a program prints that runs as a job of one rank.
#[track_caller]
fn prints(source: &str, expected: &str) {
    if let Some(program) = program(source) {
        assert_eq!(program.run().expect_success().out, expected);
    }
}

#[test]
fn wrong_arguments_are_errors() {
    prints("tests/programs/arguments.c", "finalized: 1\n");
}

#[test]
fn info_objects_keep_texts_and_hints() {
    let expected = "hints: [mpi_assert_no_any_tag]=[true]
hints: [mpi_assert_exact_length]=[true]
blanks: [ a key ]=[ a value ]
resources: [mpi_shared_memory]=[true]
value: 1 0
name: 5 0
";
    prints("tests/programs/info.c", expected);
}

#[test]
fn the_initial_error_handler_can_be_chosen() {
    let Some(program) = program("tests/programs/initial_errhandler.c") else {
        return;
    };
    for (handler, goes_on) in [("mpi_errors_return", true), ("mpi_errors_abort", false)] {
        let mut command = Command::new(program.path());
        let ended = built::end(command.env("REFRAIN_MPI_ERRHANDLER", handler));
        assert_eq!(ended.status == Some(0), goes_on, "{}", ended.err);
        assert_eq!(ended.out == "goes on\n", goes_on, "{}", ended.out);
    }
}

#[test]
fn checks_of_buffers_can_be_turned_off() {
    let Some(program) = program("tests/programs/one_buffer.c") else {
        return;
    };
    for (checks, refusal) in [
        ("on", Some("the two buffers are one")),
        ("off", None),
        ("maybe", Some("set it to on or off")),
    ] {
        let mut command = Command::new(program.path());
        let ended = built::end(command.env("REFRAIN_MPI_CHECKS", checks));
        assert_eq!(ended.status == Some(0), refusal.is_none(), "{}", ended.err);
        assert!(ended.err.contains(refusal.unwrap_or("")), "{}", ended.err);
    }
}
