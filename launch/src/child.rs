//! The process of one life of a rank, on this host.

use super::fencing;
use super::hosts::message::Recipient;
use super::restarts;
use super::verdict::End;
use crate::leftovers;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, pidfd_open,
    waitid,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

/// How long the launcher waits at the end for a process that it has killed and
/// did not start.
const JOINED_END_MAX: Duration = Duration::from_millis(250);
/// How long a killed life of a rank that is restarted may take to end.
const FENCE_MAX: Duration = Duration::from_secs(5);

/// One rank's process. Dropping it kills and reaps it and its group, and removes
/// what libfabric's shm provider has left of it.
#[derive(Debug)]
pub struct RankChild {
    /// Reaped only at the end of the job, or when all of its group has ended:
    /// until then its id, and that of its group, cannot be used again.
    child: Child,
    group: Pid,
    pidfd: OwnedFd,
    /// The process that has joined the job, if that is not the child itself but
    /// one that it (a wrapper) has started: its id and descriptor.
    joined: Option<(u32, OwnedFd)>,
    /// Nothing of it lives, and it was reaped.
    is_fenced: bool,
}

impl RankChild {
    /// Takes over a started child.
    ///
    /// # Errors
    /// Of the system; the child is killed then.
    pub fn new(mut child: Child) -> io::Result<Self> {
        let group = Pid::from_child(&child);
        match pidfd_open(group, PidfdFlags::empty()) {
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

    /// Its ends of the pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// A process has joined the job as this rank.
    pub fn join(&mut self, process: u32) {
        let id = i32::try_from(process).ok().and_then(Pid::from_raw);
        // Of another process namespace the id means nothing here.
        if let Some(id) = id.filter(|id| *id != self.group)
            && let Ok(descriptor) = pidfd_open(id, PidfdFlags::empty())
        {
            self.joined = Some((process, descriptor));
        }
    }

    /// Its process id, which is also that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Readable when the process has ended.
    pub fn end_descriptor(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Looks whether the process has ended, and leaves it unreaped.
    pub fn look(&self) -> Option<End> {
        match self.status() {
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(status), _) => Some(End::Exited(status)),
                (None, Some(signal)) => Some(End::Killed(signal)),
                (None, None) => None,
            },
            Ok(None) => None,
            // Something else in this process has reaped it: its status is lost.
            Err(_) => Some(End::Exited(1)),
        }
    }

    /// Whether the process has ended, noticed or not.
    pub fn has_ended(&self) -> bool {
        !matches!(self.status(), Ok(None))
    }

    fn status(&self) -> rustix::io::Result<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        rustix::io::retry_on_intr(|| waitid(WaitId::PidFd(self.pidfd.as_fd()), options))
    }

    /// How it ended, as far as that is known behind a wrapper.
    pub fn true_end(&self, end: End) -> End {
        match &self.joined {
            Some(_) => restarts::behind_wrapper(end),
            None => end,
        }
    }

    /// The process that takes part in the job, as far as it is known.
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
        fencing::signal(self.group, &self.pidfd, signal);
    }

    /// Kills what is left of the group, also after the end of the rank itself.
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

    /// Makes sure that nothing of this life runs any more: what is reaped stores
    /// nothing. FENCE-1
    ///
    /// # Errors
    /// Something that was killed has not ended: what, for people.
    pub fn fence(&mut self) -> Result<(), String> {
        self.kill_group();
        // It may have left the group.
        self.signal_joined(Signal::KILL);
        let mut joined = self.joined.iter();
        let mut has_ended = joined.all(|(_, joined)| fencing::ends_within(joined, FENCE_MAX));
        // Fails only if the process was reaped elsewhere.
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
            // Killed with the group, but not reaped by us.
            fencing::ends_within(descriptor, JOINED_END_MAX);
            processes.push(*process);
        }
        leftovers::remove_segments_of(&processes);
    }
}
