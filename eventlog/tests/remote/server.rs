//! The logger in another process: this test program, started again. It executes
//! commands line by line, and serves meanwhile as [`RemoteRings`] requires of a
//! server: it sleeps until its descriptor or a line wakes it.

use crate::harness::{End, LIMIT, hex, port, unhex};
use refrain_eventlog::message::RemoteRing;
use refrain_eventlog::remote::{RemoteRings, RingKey};
use refrain_eventlog::ring::RingMemory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const ROLE: &str = "REFRAIN_TEST_LOGGER";
const NAME: &str = "server::a_logger_in_another_process";

/// Not a test by itself: the other process.
#[test]
fn a_logger_in_another_process() {
    match std::env::var(ROLE) {
        Ok(role) => {
            let (library, provider) = role.split_once('|').unwrap();
            Serving::open(library, provider).run();
        }
        Err(_) => println!("skipped the logger: no test of its own, the others start it"),
    }
}

/// The logger, controlled by tests. Ended when dropped.
pub struct Logger {
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Logger {
    pub fn start(library: &Path, provider: &str) -> Self {
        let role = format!("{}|{provider}", library.display());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, to, from }
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.to, "{command}").unwrap();
        loop {
            let line = self.from.next().expect("the logger lives").unwrap();
            // The test program writes lines of its own.
            if let Some((_, answer)) = line.split_once("answer: ") {
                return answer.to_owned();
            }
        }
    }

    /// Registers the ring in that file; returns its remote address.
    pub fn register(&mut self, ring: &Path) -> RemoteRing {
        let answer = self.ask(&format!("register {}", ring.display()));
        let words: Vec<&str> = answer.split(' ').collect();
        assert_eq!(words.len(), 4, "{answer}");
        RemoteRing {
            provider: words[0].to_owned(),
            address: unhex(words[1]),
            base: words[2].parse().unwrap(),
            key: words[3].parse().unwrap(),
        }
    }

    /// The reason why one more client is refused.
    pub fn register_one_too_many(&mut self, ring: &Path) -> String {
        self.ask(&format!("register {}", ring.display()))
    }

    /// Revokes the ring that was registered as number `index`.
    pub fn revoke(&mut self, index: usize) {
        assert_eq!(self.ask(&format!("revoke {index}")), "");
    }

    /// Makes the logger read its lines only.
    pub fn pause(&mut self) {
        assert_eq!(self.ask("pause"), "");
    }

    pub fn resume(&mut self) {
        assert_eq!(self.ask("resume"), "");
    }

    /// Whether the provider can wake the logger, and the number of turns of its loop.
    pub fn turns(&mut self) -> (bool, u64) {
        let answer = self.ask("turns");
        let (has_descriptor, turns) = answer.split_once(' ').unwrap();
        (has_descriptor == "true", turns.parse().unwrap())
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // Files of the `shm` provider that a killed process cannot remove itself.
        let left = format!("{}:", self.child.id());
        for entry in std::fs::read_dir("/dev/shm").into_iter().flatten() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with(&left) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        // Ends a living logger regularly: it removes its files.
        if writeln!(self.to, "end").is_ok() {
            let begin = std::time::Instant::now();
            while begin.elapsed() < LIMIT {
                if let Ok(Some(_)) = self.child.try_wait() {
                    return;
                }
                std::thread::yield_now();
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Maximum number of rings at a time.
pub const CLIENTS_MAX: usize = 3;

struct Serving {
    rings: RemoteRings,
    keys: Vec<RingKey>,
    is_paused: bool,
    turns: u64,
}

impl Serving {
    fn open(library: &str, provider: &str) -> Self {
        Self {
            rings: RemoteRings::open(
                provider,
                Some(Path::new(library)),
                &port(provider, End::Logger),
                CLIENTS_MAX,
            )
            .unwrap(),
            keys: Vec::new(),
            is_paused: false,
            turns: 0,
        }
    }

    fn run(mut self) {
        let stdin = std::io::stdin();
        let mut text = Vec::new();
        loop {
            self.turns += 1;
            if !self.is_paused {
                self.rings.progress().unwrap();
            }
            if self.sleep(&stdin) {
                let mut bytes = [0; 4096];
                let count = rustix::io::read(&stdin, &mut bytes).unwrap();
                text.extend_from_slice(&bytes[..count]);
                // Also ends when the test is gone.
                if count == 0 {
                    return;
                }
            }
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8(text.drain(..=end).collect()).unwrap();
                if line.trim_end() == "end" {
                    return;
                }
                println!("answer: {}", self.answer(line.trim_end()));
            }
        }
    }

    /// Sleeps as long as it may; returns whether a line has come.
    fn sleep(&mut self, stdin: &std::io::Stdin) -> bool {
        let limit = if self.is_paused {
            None
        } else {
            self.rings.sleep_max()
        };
        let limit = limit.map(|limit| Timespec::try_from(limit).unwrap());
        let mut wanted = vec![PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        let descriptor = self.rings.descriptor().filter(|_| !self.is_paused);
        wanted.extend(descriptor.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        poll(&mut wanted, limit.as_ref()).unwrap();
        !wanted[0].revents().is_empty()
    }

    fn answer(&mut self, command: &str) -> String {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        match word {
            "register" => self.register(Path::new(rest)),
            "revoke" => {
                let key = self.keys[rest.parse::<usize>().unwrap()];
                self.rings.progress().unwrap();
                self.rings.revoke(key).unwrap();
                self.rings.revoke(key).unwrap();
                String::new()
            }
            "pause" | "resume" => {
                self.is_paused = word == "pause";
                String::new()
            }
            "turns" => format!("{} {}", self.rings.descriptor().is_some(), self.turns),
            other => panic!("{other}?"),
        }
    }

    fn register(&mut self, path: &Path) -> String {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let ring = RingMemory::open(&file).unwrap();
        match self.rings.register(&ring) {
            Ok((key, remote)) => {
                self.keys.push(key);
                let address = hex(&remote.address);
                format!(
                    "{} {address} {} {}",
                    remote.provider, remote.base, remote.key
                )
            }
            Err(error) => error.to_string(),
        }
    }
}
