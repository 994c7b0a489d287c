//! No process or file of a job outlives it, in whichever way it ends.

use crate::launched::{Launched, Process, job, processes_of, refrain, run};
use rustix::process::{Pid, Signal, test_kill_process_group};
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The launcher leaves no file with its prefix.
fn expect_no_files(launcher: u32) {
    for folder in refrain_launch::leftovers::folders() {
        let names = std::fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name());
        let own = format!("refrain-{launcher}-");
        let left: Vec<_> = names
            .filter(|name| name.to_string_lossy().starts_with(&own))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_killed_launcher_takes_all_ranks_with_it() {
    for steps in [
        "process hang",
        "hello ignore-term process hang",
        "process 0:fence hang",
    ] {
        let mut launched = Launched::start(&mut job("-n 3", steps));
        let ranks = launched.processes("process", 3);
        let launcher = launched.id();
        assert!(ranks.iter().all(Process::is_running));
        launched.signal(Signal::KILL);
        ranks.iter().for_each(Process::expect_end);
        assert_eq!(launched.end().status, None);
        expect_no_files(launcher);
    }
}

#[test]
fn signals_end_ranks_and_are_the_status() {
    for (signal, status) in [
        (Signal::TERM, 143),
        (Signal::INT, 130),
        (Signal::HUP, 129),
        (Signal::QUIT, 131),
    ] {
        let mut launched = Launched::start(&mut job("-n 2", "process hang"));
        let launcher = launched.id();
        let ranks = launched.processes("process", 2);
        launched.signal(signal);
        let ended = launched.end().expect(status);
        ranks.iter().for_each(Process::expect_end);
        assert!(ended.err.contains("was ended by SIG"), "{}", ended.err);
        expect_no_files(launcher);
    }
}

/// A launcher that a signal ended while it started ranks left files, and processes that were still
/// being killed.
#[test]
fn a_signal_during_the_start_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = job("-n 32 --protocol pessimist", "hang");
    let launched = Launched::start(command.env("TMPDIR", folder.path()));
    let launcher = launched.id();
    let files = || fs::read_dir(folder.path()).unwrap().count();
    let begin = Instant::now();
    // The first files are created before the first rank.
    while files() == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "no file is made");
        std::thread::yield_now();
    }
    launched.signal(Signal::TERM);
    let ended = launched.end().expect(143);
    assert!(ended.err.contains("was ended by SIGTERM"), "{}", ended.err);
    assert_eq!(processes_of(folder.path()), [""; 0]);
    assert_eq!(files(), 0);
    expect_no_files(launcher);
}

#[test]
fn ranks_that_ignore_a_signal_are_killed_after_the_grace() {
    let mut launched = Launched::start(&mut job("-n 2", "ignore-term process hang"));
    let ranks = launched.processes("process", 2);
    launched.signal(Signal::TERM);
    launched.end().expect(143);
    ranks.iter().for_each(Process::expect_end);
}

#[test]
fn a_stopped_rank_is_ended_too() {
    let mut launched = Launched::start(&mut job("-n 2", "process 0:kill-myself=19 hang"));
    let ranks = launched.processes("process", 2);
    launched.signal(Signal::TERM);
    launched.end().expect(143);
    ranks.iter().for_each(Process::expect_end);
}

#[test]
fn other_signals_are_passed_on() {
    let mut launched = Launched::start(&mut job("-n 2", "signals finalize"));
    launched.wait_for("listening", 2);
    launched.signal(Signal::USR1);
    launched.wait_for("got SIGUSR1", 2);
    launched.signal(Signal::USR2);
    launched.wait_for("got SIGUSR2", 2);
    launched.signal(Signal::CONT);
    launched.wait_for("got SIGCONT", 2);
    launched.signal(Signal::TERM);
    launched.wait_for("got SIGTERM", 2);
    launched.end().expect(143);
}

#[test]
fn a_launcher_started_to_ignore_a_signal_ignores_it() {
    let line = format!(
        "trap '' HUP; exec {} run -n 1 -- {} signals",
        env!("CARGO_BIN_EXE_refrain"),
        crate::launched::test_rank().display()
    );
    let mut launched = Launched::start(
        std::process::Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::null()),
    );
    launched.wait_for("listening", 1);
    launched.signal(Signal::HUP);
    launched.signal(Signal::USR1);
    launched.wait_for("got SIGUSR1", 1);
    launched.signal(Signal::TERM);
    launched.end().expect(143);
}

#[test]
fn grandchildren_end_with_the_job() {
    for steps in ["grandchild", "grandchild fence 1:exit=4 hang"] {
        let mut launched = Launched::start(&mut job("-n 2", steps));
        let grandchildren = launched.processes("grandchild", 2);
        let status = launched.end().status;
        assert_eq!(status, Some(if steps.contains("exit") { 4 } else { 0 }));
        grandchildren.iter().for_each(Process::expect_end);
    }
}

#[test]
fn a_grandchild_that_left_the_group_and_holds_the_pipes_does_not_hang_the_launcher() {
    let mut launched = Launched::start(&mut job("-n 1", "escape say=bye"));
    let escaped = launched.processes("grandchild", 1);
    // Waits for the end of the process, not for that of the pipes: other processes hold them.
    Process::of(launched.id()).expect_end();
    assert!(escaped[0].is_running(), "it is nobody's business");
    escaped[0].kill();
    let ended = launched.end().expect(0);
    assert_eq!(ended.of_rank(0).last(), Some(&"bye"));
}

#[test]
fn a_failing_rank_ends_the_others_and_their_groups() {
    let mut launched =
        Launched::start(&mut job("-n 3", "process hello fence 2:kill-myself=9 hang"));
    let lines = launched.wait_for("process", 3);
    launched.end().expect(137);
    for line in lines {
        let group = Pid::from_raw(line.rsplit(' ').next().unwrap().parse().unwrap()).unwrap();
        assert!(
            test_kill_process_group(group).is_err(),
            "a process of the group of {line} is left"
        );
    }
}

#[test]
fn a_rank_holds_its_own_descriptors_only() {
    let count = |ranks: &str| {
        let ended = run(&mut job(ranks, "descriptors")).expect(0);
        let mut lines: Vec<String> = ended
            .out
            .lines()
            .map(|line| line.split_once("] ").unwrap().1.to_owned())
            .collect();
        lines.dedup();
        assert_eq!(lines.len(), 1, "the same for each rank: {lines:?}");
        lines.remove(0)
    };
    assert_eq!(count("-n 1"), count("-n 9"));
}

#[test]
fn many_ranks_exchange_memory() {
    let ended = run(&mut job("-n 40 --no-pin", "exchange=2 finalize")).expect(0);
    assert_eq!(
        ended
            .out
            .lines()
            .filter(|line| line.ends_with("exchanged"))
            .count(),
        40
    );
}

#[test]
fn clean_finds_nothing_of_a_job_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let clean = || {
        run(refrain().arg("clean").env("TMPDIR", folder.path()))
            .expect(0)
            .out
    };
    assert!(clean().contains("no files of dead jobs"));
    let left = folder.path().join("refrain-4194999-1-segment");
    std::fs::write(&left, "x").unwrap();
    assert!(clean().contains("refrain-4194999-1-segment"));
    assert!(!left.exists());
    assert!(clean().contains("no files of dead jobs"));
}

#[test]
fn the_next_start_removes_what_a_killed_job_left() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("refrain-4194999-1-segment");
    std::fs::write(&left, "x").unwrap();
    run(refrain()
        .args(["run", "-n", "1", "--", "true"])
        .env("TMPDIR", folder.path()))
    .expect(0);
    assert!(!left.exists());
}
