//! One life of a rank as the launcher sees it: its process (here or on another host), the
//! connection to it, and the rank's output.

use super::child::RankChild;
use super::fencing::Stat;
use super::hosts::far::FarProcess;
use super::hosts::message::Recipient;
use super::link::Link;
use super::output::Output;
use super::verdict::{End, Membership};
use refrain_job::output_gate::OutputGate;
use rustix::event::PollFlags;
use rustix::process::Signal;
use std::io;
use std::os::fd::BorrowedFd;
use std::process::Child;
use std::time::Instant;

/// Host of the process.
#[derive(Debug)]
enum Body {
    Here(RankChild),
    There(FarProcess),
}

/// The process of one life of a rank. Dropping it kills and reaps it and its group, and removes
/// the files that libfabric's shm provider has left for it; on another host, the agent does this.
#[derive(Debug)]
pub struct RankProcess {
    body: Body,
    /// The control socket, or the connection to the agent.
    pub link: Link,
    /// Standard output and error; empty if they are inherited.
    pub outputs: Vec<Output>,
    /// State of the rank in the control protocol.
    pub membership: Membership,
    /// How the process has ended, if the end was seen.
    pub end: Option<End>,
    /// When the launcher saw the end.
    pub noticed: Option<Instant>,
    /// Counts of the rank's recorded and stable events, with `--gate-output`.
    pub gate: Option<OutputGate>,
}

impl RankProcess {
    /// Takes over a started child, whose end can be polled for if it `has_descriptor`; its pipes are connected to `outputs`.
    ///
    /// # Errors
    /// Of the system; the child is killed then.
    pub fn new(
        child: Child,
        has_descriptor: bool,
        link: Link,
        mut outputs: Vec<Output>,
    ) -> io::Result<Self> {
        let mut child = RankChild::new(child, has_descriptor)?;
        // A failure drops the child, which ends it.
        outputs
            .iter_mut()
            .try_for_each(|output| output.connect(child.child()))?;
        Ok(Self::with(Body::Here(child), link, outputs))
    }

    /// The process of a life that an agent starts.
    pub fn far(process: FarProcess, link: Link, mut outputs: Vec<Output>) -> Self {
        outputs.iter_mut().for_each(Output::connect_far);
        Self::with(Body::There(process), link, outputs)
    }

    fn with(body: Body, link: Link, outputs: Vec<Output>) -> Self {
        Self {
            body,
            link,
            outputs,
            membership: Membership::Stranger,
            end: None,
            noticed: None,
            gate: None,
        }
    }

    /// The process, if it is on another host.
    pub fn as_far(&mut self) -> Option<&mut FarProcess> {
        match &mut self.body {
            Body::Here(_) => None,
            Body::There(far) => Some(far),
        }
    }

    /// A process has joined the job as this rank.
    pub fn join(&mut self, process: u32) {
        self.membership = Membership::Member;
        if let Body::Here(child) = &mut self.body {
            child.join(process);
        }
    }

    /// The id of the process on its host; also the id of its group. 0: an agent has not reported
    /// it yet.
    pub fn id(&self) -> u32 {
        match &self.body {
            Body::Here(child) => child.id(),
            Body::There(far) => far.id,
        }
    }

    /// Readable when the process has ended; `None` if its end is known, or if an agent or SIGCHLD
    /// will report it.
    pub fn end_descriptor(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match &self.body {
            Body::Here(child) if self.end.is_none() => {
                Some((child.end_descriptor()?, PollFlags::IN))
            }
            _ => None,
        }
    }

    /// How the process has ended, if it has. Does not reap it.
    pub fn look(&mut self) -> Option<End> {
        self.end = match &self.body {
            Body::Here(child) => child.look(),
            Body::There(far) => far.end.as_ref().map(|it| it.end),
        };
        self.noticed = self.end.map(|_| Instant::now());
        self.end
    }

    /// Whether the process has ended, even if that was not handled yet.
    pub fn has_ended(&self) -> bool {
        match &self.body {
            Body::Here(child) => child.has_ended(),
            Body::There(far) => far.end.is_some(),
        }
    }

    /// How the rank ended; behind a wrapper, as far as the wrapper's exit status shows.
    pub fn true_end(&self, end: End) -> End {
        match &self.body {
            Body::Here(child) => child.true_end(end),
            Body::There(far) => far.end.as_ref().map_or(end, |it| it.true_end),
        }
    }

    /// Whether the process that takes part in the job is stopped. `false` for a process on another
    /// host: that is not known.
    pub fn is_stopped(&self) -> bool {
        match &self.body {
            Body::Here(child) => Stat::of(child.working()).is_some_and(Stat::is_stopped),
            Body::There(_) => false,
        }
    }

    /// Sends `signal` to processes of this life.
    pub fn signal(&self, recipient: Recipient, signal: Signal) {
        match &self.body {
            _ if recipient == Recipient::Group && self.end.is_some() => {}
            Body::Here(child) => child.signal(recipient, signal),
            Body::There(far) => far.signal(recipient, signal),
        }
    }

    /// Kills all processes of the group, also after the end of the rank itself.
    pub fn kill_group(&self) {
        self.signal(Recipient::Rest, Signal::KILL);
    }

    /// Makes sure that no process of this life runs any more: a reaped process stores nothing.
    /// FENCE-1
    ///
    /// # Errors
    /// A killed process has not ended: which, for people.
    pub fn fence(&mut self) -> Result<(), String> {
        match &mut self.body {
            Body::Here(child) => child.fence(),
            Body::There(far) => far.fence(),
        }
    }
}
