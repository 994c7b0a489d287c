//! `refrain checkpointd` as users and launchers start it.

use crate::launched::{Launched, job, run};
use refrain_checkpoint::{CheckpointStoreSpec, JobName, SectionKind, Store};
use refrain_ring::{Incarnation, Rank};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

fn command(folder: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
    command
        .args(["checkpointd", "--listen", "tcp:127.0.0.1:0", "--dir"])
        .arg(folder.path().join("data"));
    command
}

fn start(folder: &TempDir) -> (Child, Vec<CheckpointStoreSpec>) {
    let socket = folder.path().join("socket");
    let mut child = command(folder)
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()))
        .stdout(Stdio::piped())
        .spawn()
        .expect("refrain");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let addresses = line.trim_end().strip_prefix("listening on ");
    let addresses = addresses.expect("it listens").split(", ");
    let places = addresses.map(|address| address.parse().expect("an address"));
    (child, places.collect())
}

#[test]
fn what_ranks_have_given_it_survives_it() {
    let folder = TempDir::new().expect("a folder");
    let job = JobName::new(5, "job-").expect("a name");
    for (number, signal) in (1..).zip([Signal::TERM, Signal::INT, Signal::KILL, Signal::TERM]) {
        let (mut child, places) = start(&folder);
        assert_eq!(places.len(), 2);
        let place = &places[number as usize % 2];
        let store = Store::open(place, job.clone()).expect("it listens");
        let found = store.newest(Rank(0)).expect("it answers");
        assert_eq!(found.map_or(0, |found| found.number()), number - 1);
        let mut writing = store.begin(Rank(0), Incarnation(0), number).expect("begun");
        writing.section(SectionKind::Memory, 1).expect("begun");
        writing.write(&[7; 100_000]).expect("sent");
        writing.commit().expect("stable");
        kill_process(Pid::from_child(&child), signal).expect("signalled");
        let ended = child.wait().expect("an end");
        assert_eq!(ended.success(), signal != Signal::KILL);
        assert_eq!(
            folder.path().join("socket").exists(),
            signal == Signal::KILL
        );
    }
}

#[test]
fn one_folder_is_of_one_running_server() {
    let folder = TempDir::new().expect("a folder");
    let (mut child, _) = start(&folder);
    let second = command(&folder).output().expect("refrain");
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("another checkpoint server"), "{said}");
    child.kill().expect("killed");
    child.wait().expect("an end");
}

/// The kernel accepts connections for a stopped server, which sends nothing. The job ends without
/// it.
#[test]
fn a_job_ends_when_its_server_is_stopped() {
    let folder = TempDir::new().expect("a folder");
    let (mut child, places) = start(&folder);
    let launch = |place: &CheckpointStoreSpec| {
        let options = format!("-n 1 --protocol pessimist --checkpoint-dir {place}");
        let mut command = job(&options, "hello stdin finalize");
        let mut launched = Launched::start(command.stdin(Stdio::piped()));
        launched.wait_for("rank 0 of 1", 1);
        launched
    };
    let mut jobs: Vec<Launched> = places.iter().map(launch).collect();
    kill_process(Pid::from_child(&child), Signal::STOP).expect("signalled");
    jobs.iter_mut().for_each(|launched| launched.give("go on"));
    for launched in jobs {
        let ended = launched.end().expect(0);
        assert!(ended.err.contains("cannot be removed"), "{ended:?}");
    }
    child.kill().expect("killed");
    child.wait().expect("an end");
}

/// The job starts only if the job and its server have the same secret.
#[test]
fn a_job_with_another_secret_than_its_server_does_not_start() {
    let folder = TempDir::new().expect("a folder");
    let secret = |digit: &str| {
        let path = folder.path().join(format!("secret-{digit}"));
        std::fs::write(&path, digit.repeat(64)).expect("written");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("ours");
        path.display().to_string()
    };
    let serve = |name: &str, options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
        command.args(["checkpointd", "--listen", "tcp:127.0.0.1:0", "--dir"]);
        command.arg(folder.path().join(name)).args(options);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("refrain");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let place = line.trim_end().strip_prefix("listening on ");
        (child, place.expect("it listens").to_owned())
    };
    let (mut open, open_place) = serve("open", &[]);
    let (mut sealed, sealed_place) = serve("sealed", &["--secret", &secret("a")]);
    let cases = [
        (&sealed_place, String::new(), "if it has a --secret"),
        (&sealed_place, secret("b"), "does not know the secret"),
        (&open_place, secret("a"), "or none if it has none"),
    ];
    for (place, secret, words) in cases {
        let mut options = format!("-n 2 --protocol pessimist --checkpoint-dir {place}");
        if !secret.is_empty() {
            options += &format!(" --checkpoint-secret {secret}");
        }
        let ended = run(&mut job(&options, "hello finalize")).expect(2);
        assert!(ended.err.contains(words), "{ended:?}");
        assert!(
            !ended.out.contains("rank"),
            "no rank has started: {ended:?}"
        );
    }
    for child in [&mut open, &mut sealed] {
        child.kill().expect("killed");
        child.wait().expect("an end");
    }
}

/// Entries of a folder that other users than the owner may use, with modes.
fn open_to_others(folder: &Path, seen: &mut Vec<String>) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        // An entry that was removed meanwhile is accessible to no process.
        let Ok(metadata) = std::fs::symlink_metadata(&path) else {
            continue;
        };
        let mode = metadata.mode() & 0o777;
        seen.push(path.display().to_string());
        if mode & 0o077 != 0 {
            found.push(format!("{} {mode:o}", path.display()));
        }
        if metadata.is_dir() {
            found.extend(open_to_others(&path, seen));
        }
    }
    found
}

/// With the most permissive umask: another user could hold a lock that it may open, and events and
/// checkpoints contain data of the program's memory.
#[test]
fn files_locks_folders_and_sockets_are_their_owners_alone() {
    let folder = TempDir::new().expect("a folder");
    let widely = |command: Command| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 000; exec \"$0\" \"$@\""]);
        shell.arg(command.get_program()).args(command.get_args());
        shell.stdin(Stdio::piped()).env("TMPDIR", folder.path());
        shell
    };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut server = Command::new(env!("CARGO_BIN_EXE_refrain"));
    server.args(["checkpointd", "--dir", &path("checkpoints")]);
    server.args(["--listen", &format!("unix:{}", path("socket"))]);
    let mut server = widely(server).stdout(Stdio::piped()).spawn().expect("sh");
    let mut line = String::new();
    let out = server.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let place: CheckpointStoreSpec = format!("unix:{}", path("socket")).parse().expect("a place");
    let store = Store::open(&place, JobName::new(5, "job-").expect("a name")).expect("a place");
    let mut writing = store.begin(Rank(0), Incarnation(0), 1).expect("begun");
    writing.section(SectionKind::Memory, 1).expect("begun");
    writing.commit().expect("stable");

    let options = format!(
        "-n 2 --protocol pessimist --event-dir {}",
        path("events/here")
    );
    let steps = "hello exchange=10 fence say=ready stdin finalize";
    let mut launched = Launched::start(&mut widely(job(&options, steps)));
    launched.wait_for("ready", 2);
    let mut seen = Vec::new();
    let found = open_to_others(folder.path(), &mut seen);
    launched.give("go on");
    launched.end().expect(0);
    server.kill().expect("killed");
    server.wait().expect("an end");
    assert_eq!(found, Vec::<String>::new());
    for name in [
        "socket",
        "checkpoints/lock",
        ".ckpt",
        "events/here",
        "-checkpoints",
    ] {
        assert!(seen.iter().any(|it| it.contains(name)), "{name}: {seen:?}");
    }
    println!("{seen:#?}");
}
