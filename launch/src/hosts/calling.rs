//! Starting the agent on one host: by ssh, or what is put in its place.

use super::HostsSpec;
use super::invitation::{Invitation, LOCAL_NAME};
use super::telling::quoted;
use crate::LaunchError;
use crate::fencing;
use crate::{program, spawn};
use refrain_job::JobError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::time::Instant;

/// What reaches a host, unless told otherwise.
const SSH: [&str; 2] = ["ssh", "-oBatchMode=yes"];

/// What has started the agent: ssh, or the agent itself.
#[derive(Debug)]
pub struct Caller {
    pub(super) child: Child,
    pub(super) pidfd: OwnedFd,
    /// The agent ends when this is closed.
    pub(super) stdin: Option<ChildStdin>,
    /// It ended, and that is known.
    pub(super) has_ended: bool,
    /// What leads to the host: a command follows. `None`: it is this one.
    way: Option<String>,
}

impl Caller {
    /// Starts the agent on one host.
    ///
    /// # Errors
    /// [`LaunchError::Program`] when there is no ssh here, [`JobError::Control`] of the system.
    pub(super) fn start(
        spec: &HostsSpec,
        name: &str,
        invitation: &Invitation,
    ) -> Result<Self, LaunchError> {
        let failed = |error| JobError::Control {
            attempted: format!("starting an agent on {name}"),
            error,
        };
        let refrain = match &spec.refrain {
            Some(path) => path.clone(),
            None => program::refrain("an agent on each host")?,
        };
        let way = (name != LOCAL_NAME).then(|| way(spec, name));
        let (command, arguments) = match &way {
            None => (refrain, vec!["agent".into()]),
            Some(words) => {
                let mut words = words.iter().cloned();
                let command = PathBuf::from(words.next().unwrap_or_default());
                let rest = words.chain([quoted(&refrain), "agent".into()]);
                (program::resolve(&command)?, rest.collect())
            }
        };
        let mut child =
            spawn::spawn_service(&command, &arguments, &[], Stdio::piped()).map_err(failed)?;
        match invite(&mut child, invitation) {
            Ok(pidfd) => Ok(Self {
                stdin: child.stdin.take(),
                child,
                pidfd,
                has_ended: false,
                way: way.map(|words| words.join(OsStr::new(" ")).to_string_lossy().into_owned()),
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(error).into())
            }
        }
    }

    /// It has ended before the agent was ready.
    pub(super) fn gone(&self, name: &str, status: ExitStatus) -> LaunchError {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with status {code}"),
            (None, signal) => format!("was killed by signal {}", signal.unwrap_or(0)),
        };
        let advice = match (&self.way, status.code()) {
            (Some(way), Some(255)) => {
                format!("the host is unreachable or refuses the login: try `{way} true`")
            }
            (Some(_), Some(126 | 127)) => {
                "refrain is missing at this path: install it there, or set --remote-refrain"
                    .to_owned()
            }
            _ => "see its output".to_owned(),
        };
        JobError::Config(format!(
            "host {name}: the remote shell command {how} before the agent was ready: {advice}"
        ))
        .into()
    }

    /// Waits a while for its end, then kills it.
    pub(super) fn end(&mut self, give_up_at: Instant) {
        drop(self.stdin.take());
        let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let _ = rustix::io::retry_on_intr(|| {
            let left = give_up_at.saturating_duration_since(Instant::now());
            poll(&mut polled, Timespec::try_from(left).ok().as_ref())
        });
        fencing::signal(Pid::from_child(&self.child), &self.pidfd, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// ssh and the host's name; the command that is to run there follows.
fn way(spec: &HostsSpec, name: &str) -> Vec<OsString> {
    let default = || SSH.map(OsString::from).to_vec();
    let ssh = Some(spec.ssh.clone()).filter(|ssh| !ssh.is_empty());
    let mut words = ssh.unwrap_or_else(default);
    words.push(name.into());
    words
}

/// Gives the invitation to what will start the agent.
fn invite(child: &mut Child, invitation: &Invitation) -> io::Result<OwnedFd> {
    // Fits a pipe. One that has ended already is noticed by its end.
    let said = child.stdin.as_mut().map_or(Ok(()), |stdin| {
        stdin.write_all(invitation.to_line().as_bytes())
    });
    match said {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?),
    }
}
