//! Events: real jobs, event loggers and kills.

use crate::launched::{Ended, Launched, Process, events_program, refrain, run};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Folder of the loggers' sockets; their paths are too long for a socket's address.
const LONG_NAME: &str = concat!(
    "a-folder-for-temporary-files-on-a-machine-whose-owner-likes-long-names-",
    "and-tells-of-the-cluster-the-partition-the-job-and-its-user-in-them"
);

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// `refrain run` of this test's program, or of a workload.
fn job(options: &str, program: &Path, arguments: &str) -> Command {
    let mut command = refrain();
    command
        .args(["run", "--no-prefix"])
        .args(options.split_whitespace())
        .arg("--")
        .arg(program)
        .args(arguments.split_whitespace())
        .stdin(Stdio::null());
    command
}

fn workload(options: &str, arguments: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_refrain-workload"));
    job(options, program, arguments)
}

/// The event loggers that a launcher has started, in the order of their numbers.
fn loggers(launcher: &Launched) -> Vec<(u32, u32)> {
    let children = format!("/proc/{0}/task/{0}/children", launcher.id());
    let children = std::fs::read_to_string(children).expect("it runs");
    let mut loggers: Vec<(u32, u32)> = children
        .split_whitespace()
        .filter_map(|id| {
            let words = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words).into_owned();
            let words: Vec<&str> = words.split('\0').collect();
            let at = words.iter().position(|word| *word == "--logger")?;
            let number = words.get(at + 1)?.parse().ok()?;
            (words.get(1) == Some(&"eventlogger")).then_some((number, id.parse().ok()?))
        })
        .collect();
    loggers.sort_unstable();
    loggers
}

fn statistics(path: &Path) -> Value {
    let bytes = std::fs::read(path).expect("the job has written it");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Number of events of all ranks together.
fn logged(statistics: &Value) -> u64 {
    let logged = &statistics["total"]["logged"];
    [
        "matches",
        "merged",
        "probes",
        "completions",
        "given",
        "nothing",
    ]
    .iter()
    .map(|kind| logged[kind].as_u64().expect("a count"))
    .sum()
}

/// The table of docs/design/protocol.md, row by row, with its counter-examples.
#[test]
fn each_row_of_the_table_logs_its_events_and_no_more() {
    // The same where commits take a round trip or a disk write: unsuccessful tests after a send
    // that waits are no separate events.
    for way in ["", "--event-way messages", "--stable durable"] {
        the_table_is_kept(way);
    }
}

fn the_table_is_kept(way: &str) {
    let options = format!("-n 2 --protocol pessimist {way}");
    let ended = run(&mut job(&options, &events_program(), "table")).expect(0);
    let found: BTreeMap<&str, &str> = ended
        .out
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(row, logged)| (row, logged.trim()))
        .collect();
    let expected = [
        ("recv-named", ""),
        ("wait-named", ""),
        ("recv-any", "match 1"),
        ("wait-of-any", "match 1"),
        ("wait-any-of-any", "merged 1"),
        ("wait-any-named", "complete 1"),
        ("wait-some", "complete 1"),
        ("test-until", "complete 1"),
        ("test-any-until", "complete 1"),
        ("test-some-until", "complete 1"),
        ("test-all-until", "complete 1"),
        ("test-send-done", "complete 1"),
        ("test-in-vain", "nothing 1"),
        ("probe", "probe 1"),
        ("iprobe-until", "probe 1"),
        ("iprobe-in-vain", "nothing 1"),
        ("mprobe", "probe 1"),
        ("improbe-until", "probe 1"),
        ("cancel-in-time", "cancel 1"),
        ("cancel-too-late", "nothing 1"),
        ("time", "given 2"),
    ];
    assert_eq!(found, BTreeMap::from(expected), "{ended:?}");
}

/// `pessimist-classic` logs events that `pessimist` avoids.
#[test]
fn the_classic_logs_every_reception() {
    let ended = run(&mut job(
        "-n 2 --protocol pessimist-classic",
        &events_program(),
        "table",
    ));
    let ended = ended.expect(0);
    for (row, logged) in [
        ("recv-named", "match 1, named 1"),
        ("wait-named", "match 2, named 2"),
        ("recv-any", "match 1"),
        ("wait-any-named", "merged 1, named 1"),
    ] {
        let line = format!("{row}: {logged}");
        assert!(ended.out.lines().any(|found| found == line), "{ended:?}");
    }
}

/// Deterministic programs log nothing, on any fabric.
#[test]
fn deterministic_programs_log_nothing() {
    let folder = folder();
    for (arguments, fabric) in [
        ("token-ring", "shm"),
        ("stencil", "shm"),
        ("token-ring", "ofi:tcp"),
    ] {
        let file = folder.path().join("stats.json");
        let options = format!(
            "-n 3 --protocol pessimist --fabric {fabric} --stats-file {}",
            file.display()
        );
        run(&mut workload(&options, arguments)).expect(0);
        let statistics = statistics(&file);
        assert_eq!(logged(&statistics), 0, "{arguments}: {statistics}");
        assert!(statistics["total"]["messages_sent"].as_u64() > Some(10));
        assert_eq!(statistics["total"]["logged"]["commits"], 0);
    }
}

/// The events of a job are in its `--event-dir` and can be printed; without this option no file is
/// left.
#[test]
fn events_are_shown_and_counted() {
    let folder = folder();
    let events = folder.path().join("events");
    let options = format!(
        "-n 3 --protocol pessimist --event-loggers 2 --event-replicas 2 --stats --event-dir {}",
        events.display()
    );
    let ended = run(&mut job(&options, &events_program(), "rounds 50")).expect(0);
    assert!(
        ended.err.contains("100 events logged, 0.4854 for each"),
        "{ended:?}"
    );
    let shown = run(refrain()
        .args(["events", "show", "--rank", "0"])
        .arg(&events))
    .expect(0);
    assert_eq!(shown.out.lines().count(), 100, "{shown:?}");
    assert!(shown.out.contains("match     receive"), "{shown:?}");
    let stats = run(refrain().args(["events", "stats"]).arg(&events)).expect(0);
    let all = stats.out.lines().last().expect("a sum");
    assert!(
        all.trim_start().starts_with("all") && all.contains("100"),
        "{stats:?}"
    );
    // A rank that a shard does not serve is missing (EL-4).
    let shard = run(refrain().args(["events", "stats"]).arg(events.join("2"))).expect(0);
    let ranks: Vec<&str> = shard
        .out
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.parse::<u32>().is_ok())
        .collect();
    assert_eq!(ranks, ["1"], "{shard:?}");
}

/// EL-3: a killed logger is restarted, and the job ends as without the kill: with one logger, with
/// the majority of two or three, by stores and by messages, placed and durable.
#[test]
fn killed_loggers_do_not_change_a_job() {
    for (options, kills) in [
        ("--event-way shm", 3),
        ("--event-way messages", 3),
        ("--stable durable", 2),
        ("--event-replicas 2", 2),
        ("--event-replicas 3", 3),
        (
            "--event-replicas 3 --stable-quorum all --event-way messages",
            2,
        ),
        ("--event-loggers 2 --fabric ofi:tcp", 2),
    ] {
        let folder = folder();
        let rounds = 3000;
        let events = folder.path().join(LONG_NAME);
        let options = format!(
            "-n 3 --protocol pessimist {options} --event-dir {}",
            events.display()
        );
        let mut command = job(&options, &events_program(), &format!("rounds {rounds}"));
        let mut launcher = Launched::start(&mut command);
        launcher.wait_for("a quarter", 1);
        for _ in 0..kills {
            let Some((_, id)) = loggers(&launcher).first().copied() else {
                continue;
            };
            let logger = Process::of(id);
            logger.kill();
            logger.expect_end();
        }
        let ended = launcher.end();
        let ended = ended.expect(0);
        assert_eq!(ended.out.matches("done").count(), 3, "{options}: {ended:?}");
        let statistics = statistics(&events.join("statistics.json"));
        assert_eq!(logged(&statistics), 2 * rounds, "{options}");
        let stats = run(refrain().args(["events", "stats"]).arg(&events)).expect(0);
        let all = stats.out.lines().last().expect("a sum");
        let counted = all.split_whitespace().nth(1).expect("events");
        assert_eq!(counted, (2 * rounds).to_string(), "{options}: {stats:?}");
    }
}

/// A world that moves to another thread for each call is the same rank, on every fabric; its sends
/// wait for its events there, too.
#[test]
fn a_world_may_move_between_threads() {
    for fabric in ["shm", "ofi:tcp"] {
        let options = format!("-n 3 --protocol pessimist --stats --fabric {fabric}");
        let ended = run(&mut job(&options, &events_program(), "wander 30")).expect(0);
        assert_eq!(ended.out.matches("done").count(), 3, "{fabric}: {ended:?}");
        assert!(
            ended.err.contains("60 events logged"),
            "{fabric}: {ended:?}"
        );
    }
}

/// A rank, its logger, or both are killed: the job ends, reports why, and leaves no process and no
/// file.
#[test]
fn a_killed_job_leaves_nothing() {
    let folder = folder();
    let temporary = folder.path().join(LONG_NAME);
    std::fs::create_dir(&temporary).expect("a folder");
    for kill_logger_first in [false, true] {
        let mut command = job(
            "-n 3 --protocol pessimist",
            &events_program(),
            "rounds 1000000",
        );
        command.env("TMPDIR", &temporary);
        let mut launcher = Launched::start(&mut command);
        launcher.wait_for("begun", 1);
        let (_, logger) = loggers(&launcher)[0];
        let logger = Process::of(logger);
        if kill_logger_first {
            logger.kill();
        }
        launcher.signal(Signal::TERM);
        launcher.close_out();
        let ended = launcher.end();
        assert!(ended.status.is_some_and(|status| status != 0), "{ended:?}");
        logger.expect_end();
        let left: Vec<_> = std::fs::read_dir(&temporary).expect("a folder").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// GATE-1: with `--gate-output` a line that depends on an event is not shown
/// before the event is stable.
#[test]
fn output_waits_for_its_events() {
    let folder = folder();
    let touch = |name: &str| std::fs::write(folder.path().join(name), "").expect("a file");
    let options = "-n 2 --protocol pessimist --event-way messages --gate-output";
    let mut command = job(options, &events_program(), "print");
    command.env("REFRAIN_TEST_FOLDER", folder.path());
    let mut launcher = Launched::start(&mut command);
    // Both, in either order.
    launcher.wait_for("e", 2);
    let (_, id) = loggers(&launcher)[0];
    let logger = rustix::process::Pid::from_raw(id as i32).expect("not 0");
    rustix::process::kill_process(logger, Signal::STOP).expect("it runs");
    touch("go");
    let seen = launcher.wait_for("", 1);
    assert_eq!(seen, ["printed"], "and not what rank 0 has printed before");
    rustix::process::kill_process(logger, Signal::CONT).expect("it runs");
    touch("end");
    let ended = launcher.end().expect(0);
    assert!(ended.out.contains("after"), "{ended:?}");
}

/// Wrong options and missing loggers each give one clear error.
#[test]
fn invalid_requests_are_reported() {
    let says = |options: &str, words: &str| {
        let ended = run(&mut job(options, &events_program(), "rounds 1"));
        assert_ne!(ended.status, Some(0), "{options}: {ended:?}");
        let said = format!("{}{}", ended.out, ended.err);
        assert!(said.contains(words), "{options}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    };
    let with = |options: &str| format!("-n 2 --protocol pessimist {options}");
    says(&with("--event-loggers 0"), "use 1 to 64");
    says(&with("--event-replicas 10"), "from 1 to 9");
    says(&with("--stable maybe"), "placed, durable");
    says(&with("--stable-quorum most"), "majority, all");
    says(
        &with("--event-way pigeon"),
        "auto, shm, messages, verbs, ofi:PROVIDER",
    );
    says(
        &with("--event-loggers nowhere"),
        "unix:PATH or tcp:HOST:PORT",
    );
    says(
        &with("--event-loggers unix:/nowhere/sock --event-wait 0.2"),
        "/nowhere/sock",
    );
    says(&with("--event-dir /proc/nowhere"), "/proc/nowhere");
}

/// A separately started logger serves several jobs, one after the other, and keeps their events
/// after they end.
#[test]
fn a_logger_of_ones_own_serves_several_jobs() {
    let folder = folder();
    let socket = format!("unix:{}", folder.path().join("sock").display());
    let mut command = refrain();
    command
        .arg("eventlogger")
        .arg(folder.path().join("events"))
        .args(["--listen", &socket, "--logger", "7"])
        .stdin(Stdio::null());
    let mut logger = Launched::start(&mut command);
    logger.wait_for("listening", 1);
    for _ in 0..2 {
        let options = format!("-n 2 --protocol pessimist --event-loggers {socket}");
        run(&mut job(&options, &events_program(), "rounds 20")).expect(0);
    }
    let several = run(refrain().args(["events", "stats", &socket]));
    assert_ne!(several.status, Some(0));
    let said: Ended = several;
    assert!(said.err.contains("--job"), "{said:?}");
    logger.signal(Signal::TERM);
    logger.end().expect(0);
}
