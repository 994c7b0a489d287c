//! Programs in C as ranks of jobs: the results of their calls, and their recovery.

mod built;

use built::{Ended, Program};

#[test]
fn every_operation_tells_what_it_did() {
    let Some(program) = Program::of("tests/programs/operations.c") else {
        return;
    };
    for (protocol, recovers) in [("none", 0), ("pessimist", 1), ("pessimist-classic", 1)] {
        let ended = program.job(2, &format!("--protocol {protocol}"), "");
        let ended = ended.expect_success();
        for rank in 0..2 {
            let line = format!("operations: rank {rank}, recovers {recovers}");
            assert!(ended.out.lines().any(|said| said == line), "{ended:?}");
        }
    }
}

/// The same lives twice: the calls return the same results again.
// REC-4
#[test]
fn every_operation_is_played_again() {
    let Some(program) = Program::of("tests/programs/operations.c") else {
        return;
    };
    for clock in (2..80).step_by(12) {
        let options = format!(
            "--protocol pessimist --kill {}@clock={clock}",
            clock / 2 % 2
        );
        let ended = program.job(2, &options, "").expect_success();
        assert_eq!(ended.deaths(), 1, "{options}: {ended:?}");
        assert_eq!(ended.out.lines().count(), 2, "{options}: {ended:?}");
    }
}

#[test]
fn wrong_uses_are_codes_and_texts() {
    let Some(program) = Program::of("tests/programs/wrong_uses.c") else {
        return;
    };
    let ended = program.run().expect_success();
    assert_eq!(ended.out, "0 failures\n");
    assert_eq!(ended.err, "");
}

/// Compares the output of a job without failures with that of the same job with failures.
#[track_caller]
fn survives(program: &Program, ranks: u32, kills: &str, arguments: &str) -> Ended {
    let expected = program.job(ranks, "--protocol none", arguments);
    let expected = expected.expect_success().out;
    assert_eq!(expected.lines().count(), 1, "{expected}");
    let options = format!("--protocol pessimist {kills}");
    let ended = program.job(ranks, &options, arguments).expect_success();
    assert_eq!(ended.out, expected, "{kills}: {}", ended.err);
    ended
}

/// Each round of a ring is two operations: the killed rank continues from the checkpoint that was
/// due before, or from its beginning.
// REC-1 REC-3
#[test]
fn a_ring_survives_and_goes_on_from_its_checkpoints() {
    let Some(program) = Program::of("examples/ring.c") else {
        return;
    };
    for (kills, begins) in [
        ("2@clock=15", "from the beginning"),
        ("1@clock=45", "checkpoint 2 read"),
        ("0@clock=90", "checkpoint 4 read"),
    ] {
        let ended = survives(&program, 3, &format!("--kill {kills}"), "60 10");
        assert_eq!(ended.deaths(), 1, "{kills}: {}", ended.err);
        assert!(ended.err.contains(begins), "{kills}: {}", ended.err);
    }
    let ended = survives(
        &program,
        3,
        "--kill 0@clock=33,1@clock=50,2@clock=50",
        "60 10",
    );
    assert_eq!(ended.deaths(), 3, "{}", ended.err);
    let ended = survives(&program, 3, "--kill 1@clock=70", "60 0");
    assert!(ended.err.contains("from the beginning"), "{}", ended.err);
}

/// All operations, element types and operators, blocking, non-blocking and persistent, compared with
/// plain loops.
#[test]
fn collectives_are_what_loops_compute() {
    let Some(program) = Program::of("tests/programs/collectives.c") else {
        return;
    };
    for ranks in 1..=5 {
        survives(&program, ranks, "", "");
    }
}

/// Ranks die in blocking, non-blocking, persistent and tested collectives.
// REC-4 STREAM-3
#[test]
fn collectives_are_the_same_when_ranks_die() {
    let Some(program) = Program::of("tests/programs/collectives.c") else {
        return;
    };
    for kills in ["2@clock=100", "1@clock=500,0@clock=1200", "3@clock=1800"] {
        let ended = survives(&program, 4, &format!("--kill {kills}"), "");
        let victims = kills.split(',').count();
        assert_eq!(ended.deaths(), victims, "{kills}: {}", ended.err);
        assert!(ended.compared() > 0, "{kills}: {}", ended.err);
    }
}

/// A later life has its groups, and prepares persistent collectives again.
// REC-1 REC-3
#[test]
fn groups_and_persistent_collectives_go_on_from_checkpoints() {
    for (source, ranks, kills) in [
        ("tests/programs/groups_restored.c", 5, "1@clock=100"),
        (
            "tests/programs/groups_restored.c",
            5,
            "0@clock=250,3@clock=251",
        ),
        ("examples/heat.c", 3, "1@clock=300"),
        ("examples/heat.c", 3, "0@clock=700,2@clock=900"),
    ] {
        let Some(program) = Program::of(source) else {
            return;
        };
        let ended = survives(&program, ranks, &format!("--kill {kills}"), "");
        let victims = kills.split(',').count();
        let reads = ended.err.matches(" read in ").count();
        assert_eq!((ended.deaths(), reads), (victims, victims), "{}", ended.err);
    }
}

#[test]
fn wrong_collectives_are_codes_and_texts() {
    let Some(program) = Program::of("tests/programs/wrong_collectives.c") else {
        return;
    };
    for protocol in ["none", "pessimist"] {
        let ended = program.job(2, &format!("--protocol {protocol}"), "");
        let ended = ended.expect_success();
        assert_eq!(ended.out, "0 failures\n0 failures\n", "{}", ended.err);
    }
}

/// After the recorded events, tickets are assigned anew.
// REC-4 REC-5
#[test]
fn a_program_that_takes_from_anyone_survives() {
    let Some(program) = Program::of("tests/programs/any_source.c") else {
        return;
    };
    for kills in [
        "0@clock=11",
        "0@clock=100",
        "2@clock=55",
        "0@clock=250",
        "0@clock=140,1@clock=70,3@clock=40",
        "0@clock=90,1@clock=90,2@clock=90,3@clock=90",
    ] {
        let ended = survives(&program, 4, &format!("--kill {kills}"), "40 5");
        let victims = kills.split(',').count();
        assert_eq!(ended.deaths(), victims, "{kills}: {}", ended.err);
    }
    let kills = "--kill-random 0.2,7 --max-restarts 1000";
    survives(&program, 4, kills, "200 10");
}

/// The messages contain times, and random numbers seeded by the time. They are the same in every
/// life, with and without checkpoints.
// REC-4 REC-8
#[test]
fn a_program_whose_messages_depend_on_the_time_survives() {
    let Some(program) = Program::of("tests/programs/wtime.c") else {
        return;
    };
    for (kills, arguments) in [
        ("--kill 1@clock=90,2@clock=35", "40 0"),
        ("--kill 0@clock=122", "40 0"),
        ("--kill 1@clock=97,2@clock=64", "40 7"),
        ("--kill-random 0.2,3 --max-restarts 1000", "20000 200"),
    ] {
        let ended = survives(&program, 3, kills, arguments);
        assert!(ended.compared() > 0, "{kills}: {}", ended.err);
    }
}

/// Without records a later life sends other numbers, and this is detected.
// REC-8
#[test]
fn a_time_that_is_not_recorded_makes_other_messages() {
    let Some(program) = Program::of("tests/programs/wtime.c") else {
        return;
    };
    let options = "--protocol pessimist --record-clocks off --kill 1@clock=90";
    let ended = program.job(3, options, "40 0");
    assert!(ended.err.contains("other bytes"), "{ended:?}");
    let ended = program.job(3, "--record-clocks maybe", "40 0");
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(ended.err.contains("use on or off"), "{ended:?}");
}

#[test]
fn memory_comes_back_only_where_it_fits() {
    let Some(program) = Program::of("tests/programs/restored.c") else {
        return;
    };
    let ended = program.job(2, "--protocol pessimist --kill 1@clock=50", "");
    let ended = ended.expect_success();
    assert_eq!(ended.deaths(), 1, "{ended:?}");
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    let expected =
        [0, 1].map(|rank| format!("restored: rank {rank}: a text of rank {rank}, 60 barriers"));
    assert_eq!(lines, expected);
}

/// Neither when it joins, nor after a peer was restarted.
#[test]
fn a_program_without_standard_streams_prints_into_nothing_of_the_library() {
    let Some(program) = Program::of("tests/programs/closed_output.c") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    for options in ["--protocol none", "--protocol pessimist --kill 1@clock=50"] {
        let file = folder.path().join(options.len().to_string());
        let ended = program.job(2, options, file.to_str().expect("a text"));
        let said = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(said, "fine\n", "{options}: {ended:?}");
        ended.expect_success();
    }
}

/// The job continues, also when the parent dies afterwards.
#[test]
fn calls_of_a_forked_child_are_refused() {
    let Some(program) = Program::of("tests/programs/forks.c") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let spill = format!("--spill-dir {}", folder.path().display());
    for options in ["--protocol none", "--kill 1@clock=70", &spill] {
        let options = match options.starts_with("--protocol") {
            true => options.to_owned(),
            false => format!("--protocol pessimist {options}"),
        };
        let ended = program.job(2, &options, "").expect_success();
        assert_eq!(ended.out, "forks: fine\n", "{options}: {ended:?}");
    }
    program.run().expect_success();
}
