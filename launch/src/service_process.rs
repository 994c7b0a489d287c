//! A process beside the ranks that serves the job: an event logger, or the process that starts an
//! agent.

use crate::fencing;
use crate::spawn;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Instant;

/// See the [module](self). The kernel kills it with the thread that started it.
#[derive(Debug)]
pub struct ServiceProcess {
    child: Child,
    pidfd: OwnedFd,
}

impl ServiceProcess {
    /// Starts the process, with `environment` added to this process's. `input` is written to its
    /// stdin, which stays open; without `input`, its stdin is empty.
    ///
    /// # Errors
    /// Of the system; no process is left running.
    pub fn start(
        program: &Path,
        arguments: &[OsString],
        environment: &[(OsString, OsString)],
        input: Option<&str>,
    ) -> io::Result<Self> {
        let stdin = input.map_or_else(Stdio::null, |_| Stdio::piped());
        let mut child = spawn::spawn_service(program, arguments, environment, stdin)?;
        match prepare(&mut child, input.unwrap_or_default()) {
            Ok(pidfd) => Ok(Self { child, pidfd }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Readable when the process has ended.
    pub fn end_descriptor(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// How the process has ended; `None`: it runs.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(&self, signal: Signal) {
        fencing::signal(Pid::from_child(&self.child), &self.pidfd, signal);
    }

    /// Closes the stdin of the process.
    pub fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for the end of the process until `give_up_at`, then kills it.
    pub fn end(&mut self, give_up_at: Instant) {
        self.close_stdin();
        let left = give_up_at.saturating_duration_since(Instant::now());
        if !fencing::ends_within(&self.pidfd, left) {
            self.signal(Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn prepare(child: &mut Child, input: &str) -> io::Result<OwnedFd> {
    if let Some(stdin) = &mut child.stdin
        && let Err(error) = stdin.write_all(input.as_bytes())
        // The process has ended already; its end is handled elsewhere. The input fits into a pipe.
        && error.kind() != ErrorKind::BrokenPipe
    {
        return Err(error);
    }
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}
