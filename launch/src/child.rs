//! The process of one life of a rank, on this host.

use super::fencing;
use super::hosts::message::Recipient;
use super::restarts;
use super::verdict::End;
use crate::leftovers;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group,
    pidfd_open, waitid,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

/// Time for the end of a killed process that is not a child of the launcher, when the rank is
/// reaped.
const JOINED_END_MAX: Duration = Duration::from_millis(250);
/// Time for the end of a killed life of a rank that is restarted.
const FENCE_MAX: Duration = Duration::from_secs(5);

/// The process of one life of a rank. Dropping it kills and reaps it and its group, and removes
/// the files that libfabric's shm provider has left for it.
#[derive(Debug)]
pub struct RankChild {
    /// Reaped only at the end of the job, or when its whole group has ended: until then the kernel
    /// does not reuse the ids of the process and of its group.
    child: Child,
    group: Pid,
    /// `None`: SIGCHLD announces its end.
    pidfd: Option<OwnedFd>,
    /// The process that has joined the job, if a wrapper (the child) has started it: process id
    /// and descriptor.
    joined: Option<(u32, OwnedFd)>,
    /// The process is reaped and no process of its group is alive.
    is_fenced: bool,
}

impl RankChild {
    /// Takes over a started child. `has_descriptor`: its end can be polled for.
    ///
    /// # Errors
    /// Of the system; the child is killed then.
    pub fn new(mut child: Child, has_descriptor: bool) -> io::Result<Self> {
        let group = Pid::from_child(&child);
        let open = || pidfd_open(group, PidfdFlags::empty());
        match has_descriptor.then(open).transpose() {
            Ok(pidfd) => Ok(Self {
                child,
                group,
                pidfd,
                joined: None,
                is_fenced: false,
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// The child, whose ends of pipes can be taken.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// A process has joined the job as this rank.
    pub fn join(&mut self, process: u32) {
        let id = i32::try_from(process).ok().and_then(Pid::from_raw);
        // In another process namespace the id has another meaning here.
        if let Some(id) = id.filter(|id| *id != self.group)
            && let Ok(descriptor) = pidfd_open(id, PidfdFlags::empty())
        {
            self.joined = Some((process, descriptor));
        }
    }

    /// The id of the process, and of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The process group.
    pub fn group(&self) -> Pid {
        self.group
    }

    /// Readable when the process has ended; `None`: SIGCHLD announces it.
    pub fn end_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(OwnedFd::as_fd)
    }

    /// How the process has ended, if it has. Does not reap it.
    pub fn look(&self) -> Option<End> {
        match self.status() {
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(status), _) => Some(End::Exited(status)),
                (None, Some(signal)) => Some(End::Killed(signal)),
                (None, None) => None,
            },
            Ok(None) => None,
            // Another part of this program has reaped it: its status is lost.
            Err(_) => Some(End::Exited(1)),
        }
    }

    /// Whether the process has ended, even if that was not handled yet.
    pub fn has_ended(&self) -> bool {
        !matches!(self.status(), Ok(None))
    }

    fn status(&self) -> rustix::io::Result<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let of = || match &self.pidfd {
            Some(pidfd) => WaitId::PidFd(pidfd.as_fd()),
            // Its id is not used again before it is reaped.
            None => WaitId::Pid(self.group),
        };
        rustix::io::retry_on_intr(|| waitid(of(), options))
    }

    /// How the rank ended; behind a wrapper, as far as the wrapper's exit status shows.
    pub fn true_end(&self, end: End) -> End {
        match &self.joined {
            Some(_) => restarts::behind_wrapper(end),
            None => end,
        }
    }

    /// The id of the process that takes part in the job, as far as it is known.
    pub fn working(&self) -> u32 {
        self.joined
            .as_ref()
            .map_or(self.child.id(), |(joined, _)| *joined)
    }

    /// Sends `signal` to processes of this life.
    pub fn signal(&self, recipient: Recipient, signal: Signal) {
        match recipient {
            Recipient::Own => self.signal_joined(signal),
            // Its id may belong to another group now.
            Recipient::Rest if self.is_fenced => return,
            Recipient::Rest => {
                let _ = kill_process_group(self.group, signal);
            }
            // Both fail when no process is left.
            Recipient::Group if kill_process_group(self.group, signal).is_ok() => return,
            Recipient::Group => {}
        }
        match &self.pidfd {
            Some(pidfd) => fencing::signal(self.group, pidfd, signal),
            None if self.is_fenced => {}
            None => {
                let _ = kill_process(self.group, signal);
            }
        }
    }

    /// Kills all processes of the group, also after the end of the rank itself.
    pub fn kill_group(&self) {
        self.signal(Recipient::Rest, Signal::KILL);
    }

    fn signal_joined(&self, signal: Signal) {
        if let Some((process, joined)) = &self.joined
            && let Some(id) = Pid::from_raw(*process as i32)
        {
            fencing::signal(id, joined, signal);
        }
    }

    /// Makes sure that no process of this life runs any more: a reaped process stores nothing.
    /// FENCE-1
    ///
    /// # Errors
    /// A killed process has not ended: which, for people.
    pub fn fence(&mut self) -> Result<(), String> {
        self.kill_group();
        // The process may have left the group.
        self.signal_joined(Signal::KILL);
        let mut joined = self.joined.iter();
        let mut has_ended = joined.all(|(_, joined)| fencing::ends_within(joined, FENCE_MAX));
        // Fails only if another part of this program has reaped the process.
        let _ = self.child.wait();
        self.is_fenced = true;
        has_ended &= fencing::group_ends_within(self.group, FENCE_MAX);
        has_ended
            .then_some(())
            .ok_or_else(|| "has left processes that do not end when they are killed".into())
    }
}

impl Drop for RankChild {
    fn drop(&mut self) {
        if !self.is_fenced {
            self.kill_group();
            let _ = self.child.wait();
        }
        let mut processes = vec![self.child.id()];
        if let Some((process, descriptor)) = &self.joined {
            // The process was killed with the group, but cannot be reaped by the launcher.
            fencing::ends_within(descriptor, JOINED_END_MAX);
            processes.push(*process);
        }
        leftovers::remove_segments_of(&processes);
    }
}
