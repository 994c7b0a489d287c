//! The state of a job for other programs: `--status-file`, `--metrics`.

use super::launched::{Launched, job, run};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

/// The first line of the file for which `is_it` holds; waits for it.
fn line(file: &Path, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut lines = whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        if let Some(found) = lines.find(&is_it) {
            return found;
        }
        std::thread::yield_now();
    }
}

fn ask(address: &str, request: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_state_is_in_a_file_and_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("status");
    let mut command = job(
        "-n 2 --metrics 127.0.0.1:0",
        "hello 0:read=3 fence finalize",
    );
    command.stdin(Stdio::piped());
    // The options end before the program.
    let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let mut command = std::process::Command::new(command.get_program());
    command
        .arg("run")
        .arg("--status-file")
        .arg(&file)
        .args(&words[1..])
        .stdin(Stdio::piped());
    let mut launched = Launched::start(&mut command);
    let state = line(&file, |state| state["running"] == 2);
    assert_eq!(state["ended"], false);
    assert_eq!(state["protected"], true);
    assert_eq!(state["recoveries"], 0);
    let address = state["metrics"].as_str().unwrap().to_owned();
    // One that says nothing does not keep others waiting.
    let silent = TcpStream::connect(&address).unwrap();
    let answer = ask(&address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("\nrefrain_ranks{state=\"running\"} 2\n"),
        "{answer}"
    );
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{head}"
    );
    assert!(ask(&address, "GET / HTTP/1.1\r\n\r\n").contains(" 404 "));
    launched.give("abc");
    launched.end().expect(0);
    drop(silent);
    let last = line(&file, |state| state["ended"] == true);
    assert_eq!(last["status"], 0);
    assert!(last["failure"].is_null());
}

#[test]
fn the_last_line_has_the_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("status");
    let options = format!("-n 2 --status-file {}", file.display());
    run(&mut job(&options, "hello 1:exit=3 fence finalize")).expect(3);
    let last = line(&file, |state| state["ended"] == true);
    assert_eq!(last["status"], 3);
    assert!(
        last["failure"].as_str().unwrap().contains("rank 1"),
        "{last}"
    );
}

#[test]
fn a_file_or_port_that_cannot_be_is_refused() {
    for (options, words) in [
        (
            "--status-file /no/folder/file",
            "--status-file /no/folder/file: cannot be opened",
        ),
        ("--metrics 192.0.2.1:1", "choose a free port of this host"),
        ("--metrics here", "--metrics"),
    ] {
        let ended = run(&mut job(&format!("-n 1 {options}"), "hello finalize")).expect(2);
        assert!(ended.err.contains(words), "{}", ended.err);
    }
    // A full disk costs the lines, and not the job.
    let ended = run(&mut job("-n 1 --status-file /dev/full", "hello finalize")).expect(0);
    assert!(
        ended.err.contains("/dev/full: cannot be written"),
        "{}",
        ended.err
    );
}
