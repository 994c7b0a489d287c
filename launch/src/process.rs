//! One life of a rank as the launcher sees it: its process, here or on another
//! host, the way to it, and the rank's output.

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

/// Where it runs.
#[derive(Debug)]
enum Body {
    Here(RankChild),
    There(FarProcess),
}

/// One rank's process. Dropping it kills and reaps it and its group, and removes
/// what libfabric's shm provider has left of it; on another host the agent does
/// that.
#[derive(Debug)]
pub struct RankProcess {
    body: Body,
    /// Its control socket.
    pub link: Link,
    /// Its standard output and error; empty when they are inherited.
    pub outputs: Vec<Output>,
    /// How far it has come in the control protocol.
    pub membership: Membership,
    /// How it ended.
    pub end: Option<End>,
    /// When the launcher saw that.
    pub noticed: Option<Instant>,
    /// How far its events have come, with `--gate-output`.
    pub gate: Option<OutputGate>,
}

impl RankProcess {
    /// Takes over a started child; its pipes go to the rank's `outputs`.
    ///
    /// # Errors
    /// Of the system; the child is killed then.
    pub fn new(child: Child, link: Link, mut outputs: Vec<Output>) -> io::Result<Self> {
        let mut child = RankChild::new(child)?;
        // A failure drops the child, which ends it.
        outputs
            .iter_mut()
            .try_for_each(|output| output.connect(child.child()))?;
        Ok(Self::with(Body::Here(child), link, outputs))
    }

    /// One that an agent starts.
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

    /// The process on another host, if it is on one.
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

    /// Its process id, which is also that of its group; on its host. 0: an agent
    /// has not reported it yet.
    pub fn id(&self) -> u32 {
        match &self.body {
            Body::Here(child) => child.id(),
            Body::There(far) => far.id,
        }
    }

    /// Readable when the process has ended; `None` when its end is known, or an agent
    /// reports it.
    pub fn end_descriptor(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match &self.body {
            Body::Here(child) if self.end.is_none() => {
                Some((child.end_descriptor(), PollFlags::IN))
            }
            _ => None,
        }
    }

    /// Looks whether the process has ended, and leaves it unreaped.
    pub fn look(&mut self) -> Option<End> {
        self.end = match &self.body {
            Body::Here(child) => child.look(),
            Body::There(far) => far.end.as_ref().map(|it| it.end),
        };
        self.noticed = self.end.map(|_| Instant::now());
        self.end
    }

    /// Whether the process has ended, noticed or not.
    pub fn has_ended(&self) -> bool {
        match &self.body {
            Body::Here(child) => child.has_ended(),
            Body::There(far) => far.end.is_some(),
        }
    }

    /// How it ended, as far as that is known behind a wrapper.
    pub fn true_end(&self, end: End) -> End {
        match &self.body {
            Body::Here(child) => child.true_end(end),
            Body::There(far) => far.end.as_ref().map_or(end, |it| it.true_end),
        }
    }

    /// Whether the process that takes part in the job is stopped; of one on another
    /// host that is not known.
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

    /// Kills what is left of the group, also after the end of the rank itself.
    pub fn kill_group(&self) {
        self.signal(Recipient::Rest, Signal::KILL);
    }

    /// Makes sure that nothing of this life runs any more: what is reaped stores
    /// nothing. FENCE-1
    ///
    /// # Errors
    /// Something that was killed has not ended: what, for people.
    pub fn fence(&mut self) -> Result<(), String> {
        match &mut self.body {
            Body::Here(child) => child.fence(),
            Body::There(far) => far.fence(),
        }
    }
}
