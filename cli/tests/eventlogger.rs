//! `refrain eventlogger` as people and launchers start it.

use refrain_eventlog::framing::{FrameReader, encode};
use refrain_eventlog::message::{Hello, PROTOCOL_VERSION, ToClient, ToLogger, Way};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
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

fn ask(stream: &mut (impl Read + Write), question: &ToLogger) -> ToClient {
    let mut bytes = Vec::new();
    encode(question, &mut bytes).expect("a frame");
    stream.write_all(&bytes).expect("asked");
    let mut frames = FrameReader::default();
    loop {
        if let Some(answer) = frames.next_message::<ToClient>().expect("frames") {
            return answer;
        }
        let mut bytes = [0; 100];
        let count = stream.read(&mut bytes).expect("an answer");
        assert!(count > 0, "it has gone without an answer");
        frames.extend(&bytes[..count]);
    }
}

fn end(mut child: Child, signal: Signal) {
    let process = Pid::from_child(&child);
    kill_process(process, signal).expect("signalled");
    assert!(child.wait().expect("an end").success());
}

#[test]
fn it_says_where_it_listens_answers_and_ends_on_request() {
    for (signal, level) in [(Signal::TERM, "placed"), (Signal::INT, "durable")] {
        let folder = TempDir::new().expect("a folder");
        let more = ["--listen", "tcp:127.0.0.1:0", "--level", level];
        let (child, line) = start(&folder, &more);
        let socket = folder.path().join("socket");
        let unix = format!("listening on unix:{}, tcp:127.0.0.1:", socket.display());
        let port = line.trim_end().strip_prefix(&unix).expect("both addresses");
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        let answer = ask(&mut stream, &ToLogger::List);
        assert_eq!(answer, ToClient::Ranks { ranks: vec![] });
        end(child, signal);
        assert!(!socket.exists());
    }
}

/// Nobody reads its words any more: it goes on.
#[test]
fn it_answers_when_nobody_hears_what_it_reports() {
    let folder = TempDir::new().expect("a folder");
    let rings = folder.path().join("rings");
    let more = ["--rings", rings.to_str().expect("UTF-8")];
    let (mut child, _) = start(&folder, &more);
    drop(child.stderr.take());
    // There is no place for a ring, which it reports.
    std::fs::remove_dir_all(&rings).expect("it was made");
    let connect = || UnixStream::connect(folder.path().join("socket")).expect("it listens");
    let hello = ToLogger::Hello(Hello {
        version: PROTOCOL_VERSION,
        job: 1,
        rank: 0,
        incarnation: 0,
        first_kept: 0,
        begins: None,
        way: Way::SharedMemory,
    });
    let answer = ask(&mut connect(), &hello);
    assert!(matches!(answer, ToClient::Refused { .. }), "{answer:?}");
    let answer = ask(&mut connect(), &ToLogger::List);
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
