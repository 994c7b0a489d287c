//! One event logger's process.

use crate::{spawn, verdict};
use refrain_secure::Secret;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Instant;

/// One logger.
#[derive(Debug)]
pub struct LoggerProcess {
    pub arguments: Vec<OsString>,
    pub shard: usize,
    /// `None`: it does not run.
    pub process: Option<(Child, OwnedFd)>,
    pub started: Instant,
    /// So often in a row it did not live long.
    pub quick_deaths: u32,
}

impl LoggerProcess {
    /// Not started yet.
    pub fn new(arguments: Vec<OsString>, shard: usize) -> Self {
        Self {
            arguments,
            shard,
            process: None,
            started: Instant::now(),
            quick_deaths: 0,
        }
    }

    /// Starts it; a secret goes over its standard input.
    pub fn start(
        &mut self,
        program: &Path,
        environment: &[(OsString, OsString)],
        secret: Option<&Secret>,
    ) -> io::Result<()> {
        let stdin = secret.map_or_else(Stdio::null, |_| Stdio::piped());
        let mut child = spawn::spawn_service(program, &self.arguments, environment, stdin)?;
        self.started = Instant::now();
        let mut prepare = || {
            if let (Some(mut stdin), Some(secret)) = (child.stdin.take(), secret) {
                // Fits a pipe. One that has ended already is noticed by its end.
                let _ = writeln!(stdin, "{}", secret.to_text());
            }
            pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
        };
        match prepare() {
            Ok(pidfd) => {
                self.process = Some((child, pidfd));
                Ok(())
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }
}

/// How one has ended.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by {}", verdict::signal_name(signal)),
        (None, None) => "ended".into(),
    }
}
