//! Each test in a process of its own: it may break other parts of its process, and it always ends.
//! The test program starts itself again.

use crate::{peer, shared_memory};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The role of a process of this program.
pub const ROLE: &str = "REFRAIN_TEST_OFI_ROLE";
/// The parent of the process: if the parent is gone already, the process ends.
pub const PARENT: &str = "REFRAIN_TEST_OFI_PARENT";
/// The name of the test in the test program.
pub const TEST: &str = "REFRAIN_TEST_OFI_TEST";
/// The words before the number of each process that a test has started.
pub const STARTED: &str = "started process ";

/// Maximum duration of one test.
const TEST_ENDS: Duration = Duration::from_secs(100);

/// Tests in processes of their own.
macro_rules! in_processes {
    ($($name:ident => $body:expr;)+) => {
        $(
            #[test]
            fn $name() {
                $crate::process::run(concat!(module_path!(), "::", stringify!($name)), || $body);
            }
        )+
    };
}
pub(crate) use in_processes;

/// Starts the test program again, for one test and in another role.
pub fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(TEST, test)
        .env(PARENT, std::process::id().to_string());
    command
}

/// Runs a test, or the role of a child of it.
pub fn run(path: &str, body: impl FnOnce()) {
    let (_, test) = path.split_once("::").expect("a path begins with its crate");
    match std::env::var(ROLE).as_deref() {
        Ok("test") => {
            ends_with_its_parent();
            body();
        }
        Ok("peer") => {
            ends_with_its_parent();
            peer::be_the_peer();
        }
        _ => run_and_look(test),
    }
}

/// The kernel kills this process when its parent is gone, also when it is
/// stopped.
fn ends_with_its_parent() {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .expect("every kernel can");
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_pid().to_string());
    if parent != std::env::var(PARENT).ok() {
        std::process::exit(1);
    }
}

fn run_and_look(test: &str) {
    let mut command = again(test, "test");
    command.stdin(Stdio::null());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = Reaped(child.expect("a program can start itself"));
    let (to_here, lines) = mpsc::channel();
    forward(child.0.stdout.take().expect("piped"), to_here.clone());
    forward(child.0.stderr.take().expect("piped"), to_here);

    let end = Instant::now() + TEST_ENDS;
    let mut processes = vec![child.0.id()];
    let is_over = loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if let Some((_, number)) = line.split_once(STARTED) {
                    processes.extend(number.parse::<u32>());
                } else {
                    println!("{line}");
                }
            }
            Err(RecvTimeoutError::Disconnected) => break true,
            Err(RecvTimeoutError::Timeout) => break false,
        }
    };
    if !is_over {
        let _ = child.0.kill();
    }
    let status = child.0.wait().expect("it is a child");
    let left = shared_memory::files_of(&processes);
    for file in &left {
        let _ = std::fs::remove_file(file);
    }
    assert!(is_over, "the test has not ended after {TEST_ENDS:?}");
    assert!(status.success(), "the test's own process failed: {status}");
    assert!(left.is_empty(), "left behind: {left:?}");
}

struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Forwards the lines of a pipe until its end.
pub fn forward(pipe: impl Read + Send + 'static, to: mpsc::Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
}
