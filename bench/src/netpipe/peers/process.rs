//! Starts other programs, waits for them with a time limit, and ends them.

use super::trampoline::{Become, PEER_VARIABLE};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::machine::readable;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a peer.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Time for a peer to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// Time between two checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two checks whether a server listens.
const LOOK_LISTENING: Duration = Duration::from_millis(5);

/// Starts programs such that they end with the sweep.
#[derive(Clone, Debug)]
pub struct Starter {
    interrupt: Interrupt,
    /// This executable, which starts the program; `None`: start programs directly.
    trampoline: Option<PathBuf>,
    /// Variables to add to the environment of the programs.
    environment: Vec<(OsString, OsString)>,
}

impl Starter {
    pub fn new(interrupt: Interrupt) -> Self {
        Self {
            interrupt,
            trampoline: std::env::current_exe().ok(),
            environment: Vec::new(),
        }
    }

    /// A starter without this executable in between, for tests, which run in another executable.
    #[cfg(test)]
    pub fn direct(interrupt: Interrupt) -> Self {
        Self {
            interrupt,
            trampoline: None,
            environment: Vec::new(),
        }
    }

    /// Adds variables to the environment of the programs.
    pub fn with_environment(self, environment: Vec<(OsString, OsString)>) -> Self {
        Self {
            environment,
            ..self
        }
    }

    /// Starts `program` in its own process group, on the core-th allowed core if given.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(
        &self,
        program: &Path,
        arguments: &[&str],
        core: Option<usize>,
    ) -> Result<Running, BenchError> {
        let name = program.display().to_string();
        let cannot = || BenchError::system(format!("cannot start {name}"));
        let output = tempfile::tempfile().map_err(cannot())?;
        let mut command = self.command(program, arguments, core);
        let mut process = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(cannot())?)
            .stderr(output.try_clone().map_err(cannot())?)
            .process_group(0)
            .spawn()
            .map_err(cannot())?;
        let ended = pidfd_open(Pid::from_child(&process), PidfdFlags::empty());
        let ended = ended.map_err(|error| {
            let _ = process.kill();
            cannot()(error.into())
        })?;
        Ok(Running {
            name,
            process,
            ended,
            output,
            interrupt: self.interrupt.clone(),
        })
    }

    fn command(&self, program: &Path, arguments: &[&str], core: Option<usize>) -> Command {
        let Some(trampoline) = &self.trampoline else {
            let mut command = Command::new(program);
            command
                .args(arguments)
                .envs(self.environment.iter().cloned());
            return command;
        };
        let wanted = Become {
            program: program.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: self.environment.clone(),
            core,
            driver: std::process::id().cast_signed(),
        };
        let wanted = serde_json::to_string(&wanted).expect("paths and words");
        let mut command = Command::new(trampoline);
        command.arg("netpipe-rank").env(PEER_VARIABLE, wanted);
        command
    }

    /// Runs a server and then its client, each on its own core, with these command lines. Returns
    /// the output of the client.
    ///
    /// # Errors
    /// One of them fails, or both together take too long.
    pub fn pair(
        &self,
        program: &Path,
        port: u16,
        server: &str,
        client: &str,
    ) -> Result<String, BenchError> {
        let start = |line: &str, core| {
            let arguments: Vec<&str> = line.split(' ').collect();
            self.start(program, &arguments, Some(core))
        };
        let mut server = start(server, 0)?;
        server.wait_listening(port)?;
        let text = start(client, 1)?.wait(LIMIT)?;
        server.wait(GRACE)?;
        Ok(text)
    }
}

/// A running program. Dropping it ends the program and all processes that it started.
#[derive(Debug)]
pub struct Running {
    name: String,
    process: Child,
    /// Readable when the process has ended.
    ended: OwnedFd,
    output: File,
    interrupt: Interrupt,
}

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Waits for the end of the program; returns its output.
    ///
    /// # Errors
    /// The program fails or takes longer than `limit`.
    pub fn wait(mut self, limit: Duration) -> Result<String, BenchError> {
        let began = Instant::now();
        while !self.has_ended(LOOK)? {
            self.interrupt.check()?;
            if began.elapsed() > limit {
                let seconds = limit.as_secs();
                return Err(self.failed(&format!("did not end within {seconds} s")));
            }
        }
        let cannot = BenchError::system(format!("cannot wait for {}", self.name));
        let status = self.process.wait().map_err(cannot)?;
        self.interrupt.check()?;
        if !status.success() {
            return Err(self.failed(&format!("failed ({status})")));
        }
        Ok(self.text())
    }

    /// Waits until the program listens on `port`.
    fn wait_listening(&mut self, port: u16) -> Result<(), BenchError> {
        let began = Instant::now();
        while !is_listening(port) {
            self.interrupt.check()?;
            if self.has_ended(LOOK_LISTENING)? {
                return Err(self.failed("ended before it listened"));
            }
            if began.elapsed() > LIMIT {
                return Err(self.failed("does not listen"));
            }
        }
        Ok(())
    }

    /// Whether the program has ended. Does not reap it, so that its process id is not reused.
    fn has_ended(&self, time: Duration) -> Result<bool, BenchError> {
        let cannot = BenchError::system(format!("cannot wait for {}", self.name));
        readable(&self.ended, time).map_err(cannot)
    }

    /// An error with the last line of the program's output.
    fn failed(&mut self, what: &str) -> BenchError {
        let text = self.text();
        let last = text.lines().map(str::trim).rfind(|line| {
            // Skips rules and empty lines.
            line.chars().any(char::is_alphanumeric)
        });
        BenchError::failed(match last {
            Some(line) => format!("{} {what}; its last output: {line}", self.name),
            None => format!("{} {what}", self.name),
        })
    }

    fn text(&mut self) -> String {
        let mut bytes = Vec::new();
        // Without the output the error is less helpful, but not wrong.
        let _ = self.output.rewind();
        let _ = self.output.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(Some(_))) {
            return;
        }
        // SIGTERM first: mpirun ends its ranks, libfabric removes its segments.
        let _ = kill_process_group(self.pid(), Signal::TERM);
        let began = Instant::now();
        while began.elapsed() < GRACE && !self.has_ended(LOOK).unwrap_or(true) {}
        if !self.has_ended(Duration::ZERO).unwrap_or(false) {
            let started = descendants(self.pid());
            let _ = kill_process_group(self.pid(), Signal::KILL);
            started.into_iter().for_each(kill_and_wait);
        }
        let _ = self.process.wait();
    }
}

/// Kills a process, and returns when it has ended.
fn kill_and_wait(pid: Pid) {
    let Ok(ended) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    let _ = kill_process(pid, Signal::KILL);
    let _ = readable(&ended, GRACE);
}

/// All descendants of `pid`: ranks of mpirun have their own process groups.
fn descendants(pid: Pid) -> Vec<Pid> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let pid = pid.as_raw_nonzero();
        let children =
            fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        found.extend(
            children
                .split_whitespace()
                .filter_map(|child| Pid::from_raw(child.parse().ok()?)),
        );
        next += 1;
    }
    found.split_off(1)
}

/// A port that is free now.
///
/// # Errors
/// The system has no free port.
pub fn free_port() -> Result<u16, BenchError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(BenchError::system("no free port"))
}

/// Reads the kernel's table instead of connecting: these servers accept only one connection.
fn is_listening(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .any(|table| lists_listener(&table, port))
}

fn lists_listener(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace();
        let local = words.nth(1).unwrap_or_default();
        let state = words.nth(1).unwrap_or_default();
        local.ends_with(&suffix) && state == "0A"
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::test_kill_process;

    fn shell(script: &str, interrupt: &Interrupt) -> Running {
        Starter::direct(interrupt.clone())
            .start(Path::new("/bin/sh"), &["-c", script], None)
            .unwrap()
    }

    #[test]
    fn output_and_failure_are_told() {
        let interrupt = Interrupt::default();
        let text = shell("echo out; echo err >&2", &interrupt).wait(LIMIT);
        assert_eq!(text.unwrap(), "out\nerr\n");
        let error = shell("echo because; echo ---; exit 3", &interrupt)
            .wait(LIMIT)
            .unwrap_err()
            .to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("its last output: because"), "{error}");
    }

    /// A program that ignores SIGTERM and has started another program: both end.
    #[test]
    fn a_hanging_program_is_ended_with_all_it_started() {
        let interrupt = Interrupt::default();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!(
            "trap '' TERM; setsid sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; while :; do sleep 1000; done",
            file.display()
        );
        let running = shell(&script, &interrupt);
        while !file.exists() {
            assert!(!running.has_ended(LOOK_LISTENING).unwrap());
        }
        let started: i32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        let error = running.wait(Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("did not end within 0 s"), "{error}");
        // It may be a zombie until its new parent reaps it; it does not run.
        let state = fs::read_to_string(format!("/proc/{started}/stat"))
            .ok()
            .and_then(|stat| stat.rsplit(')').next()?.trim().chars().next());
        let alive = test_kill_process(Pid::from_raw(started).unwrap()).is_ok();
        assert!(
            !alive || matches!(state, None | Some('Z' | 'X')),
            "process {started} is {state:?}"
        );
    }

    #[test]
    fn an_interrupt_ends_the_wait() {
        let interrupt = Interrupt::default();
        let running = shell("sleep 1000", &interrupt);
        interrupt.request();
        assert!(matches!(running.wait(LIMIT), Err(BenchError::Interrupted)));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let error = Starter::direct(Interrupt::default())
            .start(Path::new("/no/such/program"), &[], None)
            .unwrap_err();
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }

    #[test]
    fn listeners_are_read_from_the_kernels_table() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listening(port));
        let table =
            "  sl  local_address rem_address   st\n   0: 0100007F:BAC3 00000000:0000 01 x\n";
        assert!(!lists_listener(table, 0xBAC3), "connected, not listening");
        assert!(lists_listener(&table.replace(" 01 ", " 0A "), 0xBAC3));
    }
}
