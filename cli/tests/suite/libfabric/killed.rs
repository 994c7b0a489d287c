//! Killed ranks leave nothing in `/dev/shm`, where the provider shm has its segments.

use crate::launched::{Launched, Process, refrain, run};
use crate::libfabric::installed::{has, libraries};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Stdio;

/// Longer than any test; the job is ended long before.
const ENDLESS: &str = concat!(
    env!("CARGO_BIN_EXE_refrain-workload"),
    " token-ring --rounds 1000000000"
);

/// Two ranks on the provider shm that pass a token, each started by a shell.
struct Endless {
    launched: Launched,
    ranks: Vec<Rank>,
}

impl Endless {
    /// `started` is the shell command that starts the rank.
    fn start(library: Option<&PathBuf>, started: &str) -> Self {
        let mut command = refrain();
        command.args(["run", "-n", "2", "--protocol", "none"]);
        command.args(["--fabric", "ofi:shm"]);
        if let Some(library) = library {
            command.arg("--libfabric").arg(library);
        }
        command.args(["--", "sh", "-c", started]);
        let mut launched = Launched::start(command.stdin(Stdio::null()));
        let ranks: Vec<_> = launched
            .wait_for("process", 2)
            .iter()
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .map(|id| (id, Process::of(id)))
            .collect();
        while !ranks.iter().all(|(id, _)| !segments_of(*id).is_empty()) {
            assert!(
                Process::of(launched.id()).is_running(),
                "it ended before it had segments: {:?}",
                launched.end()
            );
            std::thread::yield_now();
        }
        Self { launched, ranks }
    }
}

type Rank = (u32, Process);

fn expect_no_segments(ranks: &[Rank]) {
    for (id, rank) in ranks {
        rank.expect_end();
        let left = segments_of(*id);
        assert!(left.is_empty(), "{left:?}");
    }
}

/// The provider's files of a process: names begin with its id.
fn segments_of(process: u32) -> Vec<PathBuf> {
    let own = format!("{process}:");
    std::fs::read_dir("/dev/shm")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&own))
        .map(|entry| entry.path())
        .collect()
}

fn with_shm() -> Vec<Option<PathBuf>> {
    let mut libraries = libraries();
    libraries.retain(|library| has(library.as_ref(), "shm"));
    libraries
}

#[test]
fn a_killed_rank_and_those_that_end_for_it_leave_no_segment() {
    for library in with_shm() {
        for started in [
            format!("echo process $$; exec {ENDLESS}"),
            // The shell is the launcher's child, its child is the rank.
            format!("{ENDLESS} & echo process $!; wait"),
        ] {
            let Endless { launched, ranks } = Endless::start(library.as_ref(), &started);
            ranks[1].1.kill();
            let status = launched.end().status;
            assert!(status.is_some_and(|status| status != 0), "{status:?}");
            expect_no_segments(&ranks);
        }
    }
}

#[test]
fn ranks_that_are_asked_to_end_leave_no_segment() {
    for library in with_shm() {
        let started = format!("echo process $$; exec {ENDLESS}");
        let Endless { launched, ranks } = Endless::start(library.as_ref(), &started);
        launched.signal(Signal::TERM);
        launched.end().expect(143);
        expect_no_segments(&ranks);
    }
}

/// All processes that could remove the files are killed: `clean`, or the next start of a job,
/// removes them.
#[test]
fn what_a_killed_launcher_left_is_removed_by_clean() {
    for library in with_shm() {
        let started = format!("echo process $$; exec {ENDLESS}");
        let Endless { launched, ranks } = Endless::start(library.as_ref(), &started);
        launched.signal(Signal::KILL);
        ranks.iter().for_each(|(_, rank)| rank.expect_end());
        launched.end();
        // A job of another test may start here, and remove the files first.
        run(refrain().arg("clean")).expect(0);
        expect_no_segments(&ranks);
    }
}

/// Processor time that a process has used, in hundredths of a second.
fn processor_ticks(process: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let ticks = |number: usize| fields[number - 3].parse::<u64>().unwrap();
    ticks(14) + ticks(15)
}

/// A stopped process breaks no connection: only its silence shows that it is stopped.
#[test]
fn a_silent_rank_is_suspected_if_that_was_asked_for() {
    for library in libraries() {
        if !has(library.as_ref(), "tcp") {
            continue;
        }
        let mut command = refrain();
        command.args(["run", "-n", "2", "--protocol", "none"]);
        command.args(["--fabric", "ofi:tcp"]);
        command.args(["--suspect-after", "1", "--peer-timeout", "5"]);
        if let Some(library) = &library {
            command.arg("--libfabric").arg(library);
        }
        command.args(["--", "sh", "-c"]);
        command.arg(format!("echo process $$; exec {ENDLESS}"));
        let mut launched = Launched::start(command.stdin(Stdio::null()));
        let lines = launched.wait_for("process", 2);
        let second = lines.iter().find(|line| line.starts_with("[1]")).unwrap();
        let id = second.rsplit(' ').next().unwrap().parse().unwrap();
        // Starting takes less time; a rank that is stopped while it greets is detected, too.
        while processor_ticks(id) < 60 {
            std::thread::yield_now();
        }
        let id = rustix::process::Pid::from_raw(id).unwrap();
        rustix::process::kill_process(id, Signal::STOP).unwrap();
        let ended = launched.end();
        assert_eq!(ended.status, Some(1), "{ended:?}");
        let words = ["rank 1 is gone", "does not answer"];
        assert!(
            words.iter().any(|words| ended.err.contains(words)),
            "{}",
            ended.err
        );
    }
}
