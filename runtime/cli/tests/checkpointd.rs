//! `refrain checkpointd` as people and launchers start it.

mod launched;

use launched::{Launched, job};
use refrain_checkpoint::{JobName, Place, SectionKind, Store};
use refrain_ring::{Incarnation, Rank};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

fn command(folder: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
    command
        .args(["checkpointd", "--listen", "tcp:127.0.0.1:0", "--dir"])
        .arg(folder.path().join("data"));
    command
}

fn start(folder: &TempDir) -> (Child, Vec<Place>) {
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

/// A server that is stopped takes connections, as the kernel does that, and says
/// nothing. The job goes to its end without it.
#[test]
fn a_job_ends_when_its_server_is_stopped() {
    let folder = TempDir::new().expect("a folder");
    let (mut child, places) = start(&folder);
    kill_process(Pid::from_child(&child), Signal::STOP).expect("signalled");
    let launch = |place: &Place| {
        let options = format!("-n 1 --protocol pessimist --checkpoint-dir {place}");
        Launched::start(&mut job(&options, "hello finalize"))
    };
    let jobs: Vec<Launched> = places.iter().map(launch).collect();
    for launched in jobs {
        let ended = launched.end().expect(0);
        assert!(ended.err.contains("cannot be removed"), "{ended:?}");
    }
    child.kill().expect("killed");
    child.wait().expect("an end");
}
