//! `refrain eventlogger` as users and launchers start it.

use refrain_eventlog::message::{CommitPath, Hello, PROTOCOL, ToClient, ToLogger};
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Incarnation, Rank};
use refrain_wire::{Connection, ServerAddress};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

fn start(folder: &TempDir, more: &[&str]) -> (Child, String) {
    let socket = folder.path().join("socket");
    let mut child = Command::new(env!("CARGO_BIN_EXE_refrain"))
        .arg("eventlogger")
        .arg(folder.path().join("data"))
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()))
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("refrain");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a line");
    (child, line)
}

fn ask(address: &ServerAddress, question: &ToLogger) -> ToClient {
    let connected = Connection::connect(address, &PROTOCOL, Duration::from_secs(10));
    let mut connection = connected.expect("it listens");
    connection.say(question).expect("a frame");
    connection.wait_message(None).expect("an answer")
}

fn end(mut child: Child, signal: Signal) {
    let process = Pid::from_child(&child);
    kill_process(process, signal).expect("signalled");
    assert!(child.wait().expect("an end").success());
}

#[test]
fn it_prints_its_addresses_answers_and_ends_on_request() {
    for (signal, level) in [(Signal::TERM, "placed"), (Signal::INT, "durable")] {
        let folder = TempDir::new().expect("a folder");
        let more = ["--listen", "tcp:127.0.0.1:0", "--level", level];
        let (child, line) = start(&folder, &more);
        let socket = folder.path().join("socket");
        let unix = format!("listening on unix:{}, tcp:127.0.0.1:", socket.display());
        let port = line.trim_end().strip_prefix(&unix).expect("both addresses");
        let address = ServerAddress::Tcp(format!("127.0.0.1:{port}"));
        let answer = ask(&address, &ToLogger::List);
        assert_eq!(answer, ToClient::Ranks { ranks: vec![] });
        end(child, signal);
        assert!(!socket.exists());
    }
}

/// Its stderr has no reader any more: it continues.
#[test]
fn it_answers_when_its_stderr_is_not_read() {
    let folder = TempDir::new().expect("a folder");
    let rings = folder.path().join("rings");
    let more = ["--rings", rings.to_str().expect("UTF-8")];
    let (mut child, _) = start(&folder, &more);
    drop(child.stderr.take());
    // There is no space for a ring, which it reports.
    std::fs::remove_dir_all(&rings).expect("it was made");
    let address = ServerAddress::Unix(folder.path().join("socket"));
    let hello = ToLogger::Hello(Hello {
        job: 1,
        rank: Rank(0),
        incarnation: Incarnation(0),
        first_kept: EventIndex(0),
        begins: None,
        way: CommitPath::SharedMemory,
    });
    let answer = ask(&address, &hello);
    assert!(matches!(answer, ToClient::Refused { .. }), "{answer:?}");
    let answer = ask(&address, &ToLogger::List);
    assert!(matches!(answer, ToClient::Ranks { .. }), "{answer:?}");
    end(child, Signal::TERM);
}

#[test]
fn one_folder_is_of_one_running_logger() {
    let folder = TempDir::new().expect("a folder");
    let (child, _) = start(&folder, &[]);
    let second = Command::new(env!("CARGO_BIN_EXE_refrain"))
        .arg("eventlogger")
        .arg(folder.path().join("data"))
        .args(["--listen", "tcp:127.0.0.1:0"])
        .output()
        .expect("refrain");
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("another event logger"), "{said}");
    end(child, Signal::TERM);
}
