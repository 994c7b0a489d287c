//! Jobs of programs in C that use MPI: the same output with any ranks killed.

#[path = "../../capi/tests/built/mod.rs"]
mod built;

mod program;

use program::program;
use std::process::Command;

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
