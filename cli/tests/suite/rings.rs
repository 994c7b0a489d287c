//! `refrain run --event-rings`: the rings of event loggers in a separate folder, of which nothing
//! is left, whichever process is killed.

use crate::launched::{Launched, Process, job, processes_of, refrain, run, test_rank};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Folder for the rings, and folder for all other files.
struct Folders {
    rings: TempDir,
    temporary: TempDir,
}

impl Folders {
    fn new() -> Self {
        let folder = || tempfile::tempdir().expect("a folder");
        Self {
            rings: folder(),
            temporary: folder(),
        }
    }

    /// Two ranks that log events; they write into rings.
    fn refrain(&self, options: &str) -> Command {
        let mut command = refrain();
        let always = "run -n 2 --fabric shm --protocol pessimist --event-way shm --event-rings";
        command
            .args(always.split(' '))
            .arg(self.rings.path())
            .args(options.split_whitespace())
            .arg("--")
            .env("TMPDIR", self.temporary.path());
        command
    }

    fn job(&self, options: &str, steps: &str) -> Command {
        let mut command = self.refrain(options);
        command.arg(test_rank()).args(steps.split(' '));
        command
    }

    /// A job that runs until it is ended.
    fn endless(&self) -> Launched {
        let options = "--log-memory 16M --log-full-wait 600";
        let mut launched = Launched::start(&mut self.job(options, "flood=100000000"));
        launched.wait_for("received 0", 1);
        launched
    }
}

/// All files at any depth.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

fn rings(folder: &Path) -> usize {
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let all = files(folder);
    all.iter()
        .filter(|path| name(path).starts_with("ring-"))
        .count()
}

#[track_caller]
fn expect_empty(folder: &Path) {
    assert_eq!(fs::read_dir(folder).expect("a folder").count(), 0);
}

#[test]
fn rings_lie_there_and_go_with_the_job() {
    let folders = Folders::new();
    let launched = folders.endless();
    assert_eq!(rings(folders.rings.path()), 2);
    assert_eq!(rings(folders.temporary.path()), 0);
    launched.signal(Signal::TERM);
    assert_eq!(launched.end().status, Some(143));
    expect_empty(folders.rings.path());
    expect_empty(folders.temporary.path());
}

/// EL-3: acknowledged events are in the rings, which outlive the logger's process.
#[test]
fn a_killed_logger_finds_its_rings_and_the_job_ends_well() {
    let folders = Folders::new();
    for shards in ["1", "2"] {
        let options = format!("--event-loggers {shards} --kill eventlogger.0@0.1,1@clock=400");
        let mut command = folders.refrain(&options);
        command.arg(env!("CARGO_BIN_EXE_refrain-workload"));
        let chaos = "chaos --operations 60000 --bytes-max 20000 --patience 30";
        let ended = run(command.args(chaos.split(' '))).expect(0);
        assert!(ended.err.contains("event logger 0 was killed"), "{ended:?}");
        expect_empty(folders.rings.path());
        expect_empty(folders.temporary.path());
    }
}

/// `refrain clean` and the next job find the files of a killed launcher.
#[test]
fn what_a_killed_launcher_leaves_is_removed() {
    let folders = Folders::new();
    let leave = || {
        let launched = folders.endless();
        let launcher = Process::of(launched.id());
        launched.signal(Signal::KILL);
        launcher.expect_end();
        launched.end();
        // The kernel kills loggers and ranks, without a notification.
        while !processes_of(folders.temporary.path()).is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(rings(folders.rings.path()), 2, "what is to be removed");
    };
    leave();
    let rings = folders.rings.path();
    let mut clean = refrain();
    clean.arg("clean").arg("--spill-dir").arg(rings);
    let ended = run(clean.env("TMPDIR", folders.temporary.path())).expect(0);
    assert!(ended.out.contains("-rings ("), "{ended:?}");
    expect_empty(rings);
    leave();
    run(&mut folders.job("", "hello finalize")).expect(0);
    expect_empty(rings);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let mut command = job(
        "-n 1 --protocol pessimist --event-rings /no/such/folder",
        "hello",
    );
    let ended = run(&mut command).expect(2);
    assert!(
        ended.err.contains("--event-rings /no/such/folder"),
        "{ended:?}"
    );
}
