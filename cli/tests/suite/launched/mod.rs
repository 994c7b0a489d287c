//! Starts `refrain` for the tests, with a time limit for every wait.

#![allow(dead_code, reason = "each test file uses a part")]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};

/// Time limit, far longer than any wait here; a test that reaches it has failed.
const LONGEST: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// The launcher under test.
pub fn refrain() -> Command {
    Command::new(env!("CARGO_BIN_EXE_refrain"))
}

/// The program whose arguments are steps (`cli/tests/programs/rank.rs`).
pub fn test_rank() -> PathBuf {
    example("refrain-test-rank")
}

/// The program of tests about events (`cli/tests/programs/events.rs`).
pub fn events_program() -> PathBuf {
    example("refrain-test-events")
}

fn example(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_refrain"));
    let path = folder.with_file_name("examples").join(name);
    assert!(path.is_file(), "{} is built by cargo test", path.display());
    path
}

/// `refrain run` with `options`, of the test program with `steps`; both are separated by blanks.
/// Nothing is logged unless the options say so.
pub fn job(options: &str, steps: &str) -> Command {
    let mut command = refrain();
    command
        .arg("run")
        .args(protocol_of(options))
        .args(options.split_whitespace())
        .arg("--")
        .arg(test_rank());
    command.args(steps.split_whitespace()).stdin(Stdio::null());
    command
}

fn protocol_of(options: &str) -> &'static [&'static str] {
    match options.contains("--protocol") {
        true => &[],
        false => &["--protocol", "none"],
    }
}

/// The command lines of the running processes that have this folder in their environment.
pub fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|process| {
        let environment = fs::read(process.path().join("environ")).ok()?;
        let has_it = String::from_utf8_lossy(&environment).contains(folder);
        has_it.then(|| fs::read_to_string(process.path().join("cmdline")).unwrap_or_default())
    })
    .collect()
}

/// The result of a command.
#[derive(Debug)]
pub struct Ended {
    /// The exit status; `None` if it was killed.
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// The lines of one rank in order, without its prefix.
    pub fn of_rank(&self, rank: u32) -> Vec<&str> {
        let prefix = format!("{rank}] ");
        let strip = |line: &'_ str| line.trim_start_matches(['[', ' ']).starts_with(&prefix);
        self.out
            .lines()
            .filter(|line| strip(line))
            .map(|line| line.split_once("] ").unwrap().1)
            .collect()
    }

    #[track_caller]
    pub fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }
}

/// Runs a command until it ends.
pub fn run(command: &mut Command) -> Ended {
    Launched::start(command).end()
}

/// The descriptor of a process, which cannot become that of another process. `None`: the process
/// had ended before.
pub struct Process(Option<OwnedFd>);

impl Process {
    pub fn of(id: u32) -> Self {
        let id = Pid::from_raw(id as i32).expect("not 0");
        match pidfd_open(id, PidfdFlags::empty()) {
            Ok(process) => Self(Some(process)),
            Err(rustix::io::Errno::SRCH) => Self(None),
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether the process ends within a time.
    fn ends_within(&self, longest: Timespec) -> bool {
        let Some(process) = &self.0 else { return true };
        let mut polled = [PollFd::new(process, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut polled, Some(&longest))).expect("poll") == 1
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub fn expect_end(&self) {
        assert!(
            self.ends_within(LONGEST),
            "a process that had to end still runs"
        );
    }

    pub fn is_running(&self) -> bool {
        !self.ends_within(Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        })
    }

    pub fn kill(&self) {
        let process = self.0.as_ref().expect("it was there");
        let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
    }
}

/// A child process. Dropping it kills the process, so that it does not outlive a failed test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // No effect if the process was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running launcher.
pub struct Launched {
    child: Ending,
    out: Option<BufReader<ChildStdout>>,
    err: JoinHandle<String>,
    seen: String,
}

impl Launched {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stderr = child.stderr.take().expect("piped");
        let err = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).expect("text");
            text
        });
        let out = child.stdout.take().map(BufReader::new);
        Self {
            child: Ending(child),
            out,
            err,
            seen: String::new(),
        }
    }

    pub fn id(&self) -> u32 {
        self.child.0.id()
    }

    pub fn is_running(&self) -> bool {
        Process::of(self.id()).is_running()
    }

    pub fn out(&mut self) -> &mut BufReader<ChildStdout> {
        self.out.as_mut().expect("not closed yet")
    }

    pub fn close_out(&mut self) {
        self.out = None;
    }

    pub fn give(&mut self, text: &str) {
        let mut stdin = self.child.0.stdin.take().expect("piped");
        stdin.write_all(text.as_bytes()).expect("it fits");
    }

    /// Reads output until `count` lines contain `text`, and returns those.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str, count: usize) -> Vec<String> {
        let mut found = Vec::new();
        while found.len() < count {
            let mut line = String::new();
            let read = self.out().read_line(&mut line).expect("text");
            assert!(read > 0, "the output ended before {text:?}: {}", self.seen);
            self.seen += &line;
            if line.contains(text) {
                found.push(line.trim_end().to_owned());
            }
        }
        found
    }

    /// The processes in `count` lines `… name ID`.
    #[track_caller]
    pub fn processes(&mut self, name: &str, count: usize) -> Vec<Process> {
        let lines = self.wait_for(name, count);
        lines
            .iter()
            .map(|line| Process::of(line.rsplit(' ').next().unwrap().parse().unwrap()))
            .collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child.0), signal).expect("it runs");
    }

    /// Waits for the end; returns the rest of the output.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        let out = self.out.take().map(|mut out| {
            let mut text = self.seen.clone();
            thread::spawn(move || {
                out.read_to_string(&mut text).expect("text");
                text
            })
        });
        if !Process::of(self.id()).ends_within(LONGEST) {
            panic!("the launcher did not end");
        }
        let status = self.child.0.wait().expect("ours").code();
        let out = out.map(|out| out.join().expect("read")).unwrap_or_default();
        Ended {
            status,
            out,
            err: self.err.join().expect("read"),
        }
    }
}
