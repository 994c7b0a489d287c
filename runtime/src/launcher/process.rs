//! One rank as the launcher sees it: its process, its socket, its output.

use super::held::Held;
use super::lines::Lines;
use super::link::Link;
use super::sink::Stream;
use super::verdict::{End, Membership};
use crate::leftovers;
use crate::output_gate::OutputGate;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;

/// How much output is read at once.
const READ_BYTES: usize = 64 << 10;
/// How long a killed process may take to end.
const JOINED_END_MAX: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

/// One output stream of one rank.
#[derive(Debug)]
pub struct Output {
    /// Where it goes.
    pub stream: Stream,
    /// `None`: ended.
    pipe: Option<OwnedFd>,
    lines: Lines,
    /// Lines whose events are not stable.
    pub held: Held,
}

impl Output {
    fn new(pipe: OwnedFd, stream: Stream, prefix: Option<String>) -> io::Result<Self> {
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Self {
            stream,
            pipe: Some(pipe),
            lines: Lines::new(prefix),
            held: Held::default(),
        })
    }

    /// The pipe, while it may bring something.
    pub fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(|pipe| pipe.as_fd())
    }

    /// Reads once; appends whole lines to `out`. `false`: nothing there now,
    /// or the end.
    pub fn read(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let mut bytes = [0; READ_BYTES];
        match rustix::io::read(pipe, &mut bytes) {
            Err(Errno::AGAIN) => false,
            Err(Errno::INTR) => true,
            Ok(0) | Err(_) => {
                self.finish(out);
                false
            }
            Ok(read) => {
                self.lines.push(&bytes[..read], out);
                true
            }
        }
    }

    /// As [`Output::read`], but what comes is held back until the rank's events
    /// are stable. GATE-1
    pub fn hold(&mut self, gate: &OutputGate) -> bool {
        let mut lines = Vec::new();
        let more = self.read(&mut lines);
        // Counted after it was read: at least those that it can depend on.
        let events = gate.recorded();
        if !lines.is_empty() && events > gate.stable() {
            gate.want(events);
        }
        self.held.push(events, lines);
        more
    }

    /// As [`Output::finish`], for output that is held back.
    pub fn finish_held(&mut self, gate: &OutputGate) {
        let mut lines = Vec::new();
        self.finish(&mut lines);
        self.held.push(gate.recorded(), lines);
    }

    /// Stops reading; a line that was not ended is passed on.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.pipe = None;
        self.lines.finish(out);
    }
}

/// One rank's process. Dropping it kills and reaps it and its group, and removes
/// what libfabric's shm provider has left of it.
#[derive(Debug)]
pub struct RankProcess {
    /// Reaped only at the end of the job: until then its id, and that of its
    /// group, cannot become somebody else's.
    child: Child,
    group: Pid,
    pidfd: OwnedFd,
    /// Its control socket.
    pub link: Link,
    /// Its standard output and error; empty when they are inherited.
    pub outputs: Vec<Output>,
    /// How far it has come in the control protocol.
    pub membership: Membership,
    /// The process that has joined the job, if that is not the child itself but
    /// one that it (a wrapper) has started: its id and descriptor.
    joined: Option<(u32, OwnedFd)>,
    /// How it ended.
    pub end: Option<End>,
    /// How far its events have come, with `--gate-output`.
    pub gate: Option<OutputGate>,
}

impl RankProcess {
    /// Takes over a started child.
    ///
    /// # Errors
    /// Of the system; the child is killed then.
    pub fn new(mut child: Child, link: Link, prefix: Option<String>) -> io::Result<Self> {
        let group = Pid::from_child(&child);
        let outputs = |child: &mut Child| {
            let stdout = child
                .stdout
                .take()
                .map(|pipe| Output::new(pipe.into(), Stream::Out, prefix.clone()));
            let stderr = child
                .stderr
                .take()
                .map(|pipe| Output::new(pipe.into(), Stream::Err, prefix.clone()));
            stdout
                .into_iter()
                .chain(stderr)
                .collect::<io::Result<Vec<_>>>()
        };
        let pidfd = pidfd_open(group, PidfdFlags::empty()).map_err(io::Error::from);
        match pidfd.and_then(|pidfd| Ok((pidfd, outputs(&mut child)?))) {
            Ok((pidfd, outputs)) => Ok(Self {
                child,
                group,
                pidfd,
                link,
                outputs,
                membership: Membership::Stranger,
                joined: None,
                end: None,
                gate: None,
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// A process has joined the job as this rank.
    pub fn join(&mut self, process: u32) {
        self.membership = Membership::Member;
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

    /// Readable when the process has ended; `None` when that is known.
    pub fn end_descriptor(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.end
            .is_none()
            .then(|| (self.pidfd.as_fd(), PollFlags::IN))
    }

    /// Looks whether the process has ended, and leaves it unreaped.
    pub fn look(&mut self) -> Option<End> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status =
            rustix::io::retry_on_intr(|| waitid(WaitId::PidFd(self.pidfd.as_fd()), options));
        self.end = match status {
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(status), _) => Some(End::Exited(status)),
                (None, Some(signal)) => Some(End::Killed(signal)),
                (None, None) => None,
            },
            Ok(None) => None,
            // Somebody else in this process has reaped it: its status is lost.
            Err(_) => Some(End::Exited(1)),
        };
        self.end
    }

    /// Sends `signal` to the process and its group.
    pub fn signal(&self, signal: Signal) {
        // Both fail when nobody is left, which is what was wanted.
        if self.end.is_none() && kill_process_group(self.group, signal).is_err() {
            let _ = pidfd_send_signal(&self.pidfd, signal);
        }
    }

    /// Kills what is left of the group, also when the rank itself has ended.
    pub fn kill_group(&self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        self.kill_group();
        // Fails only when somebody else has reaped it.
        let _ = self.child.wait();
        let mut processes = vec![self.child.id()];
        if let Some((process, descriptor)) = &self.joined {
            // Killed with the group, but not reaped by us.
            let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
            let _ = poll(&mut polled, Some(&JOINED_END_MAX));
            processes.push(*process);
        }
        leftovers::remove_segments_of(&processes);
    }
}
