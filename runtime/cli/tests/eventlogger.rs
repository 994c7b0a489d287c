//! `refrain eventlogger` as people and launchers start it.

use refrain_eventlog::framing::{FrameReader, encode};
use refrain_eventlog::message::{ToClient, ToLogger};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
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
        let mut question = Vec::new();
        encode(&ToLogger::List, &mut question).expect("a frame");
        stream.write_all(&question).expect("asked");
        let mut frames = FrameReader::default();
        let answer = loop {
            if let Some(answer) = frames.next_message::<ToClient>().expect("frames") {
                break answer;
            }
            let mut bytes = [0; 100];
            let count = stream.read(&mut bytes).expect("an answer");
            frames.extend(&bytes[..count]);
        };
        assert_eq!(answer, ToClient::Ranks { ranks: vec![] });
        end(child, signal);
        assert!(!socket.exists());
    }
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
