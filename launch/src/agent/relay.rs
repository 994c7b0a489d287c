//! The agents below this one: their connections, and the messages that go through. Docs:
//! `docs/design/agent-tree.md`.

use crate::hosts::callers::{Callers, addresses_of_this_host};
use crate::hosts::message::{Addressed, AgentDoor, FromAgent, ToAgent};
use crate::hosts::tree::Branch;
use bytes::Bytes;
use refrain_wire::{Connection, Secret};
use rustix::event::PollFlags;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Instant;

/// A child that does not take more than this is cut off: it gets its messages from the launcher.
const UNSENT_BYTES_MAX: usize = 64 << 20;

#[derive(Debug)]
struct Child {
    agent: u32,
    wire: Connection,
    /// It may have sent something, or take more.
    is_ready: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Relay {
    branch: Branch,
    callers: Callers,
    children: Vec<Child>,
}

impl Relay {
    /// Awaits the agents below. Also returns where. `None`: there are none.
    ///
    /// # Errors
    /// Of the system.
    pub(super) fn open(branch: Branch, secret: &Secret) -> io::Result<Option<(Self, AgentDoor)>> {
        if branch.children() == 0 {
            return Ok(None);
        }
        let (callers, port) = Callers::open(secret.clone())?;
        let relay = Self {
            branch,
            callers,
            children: Vec::new(),
        };
        let addresses = addresses_of_this_host();
        Ok(Some((relay, AgentDoor { addresses, port })))
    }

    /// The descriptors to poll, with the number of the child. Nothing is read from children without
    /// `room` for it above.
    pub(super) fn interests(
        &self,
        room: bool,
    ) -> impl Iterator<Item = (Option<u32>, BorrowedFd<'_>, PollFlags)> {
        let unread = if room {
            PollFlags::empty()
        } else {
            PollFlags::IN
        };
        let children = self.children.iter().filter_map(move |child| {
            let flags = child.wire.interest().difference(unread);
            // The kernel reports the end of a connection even if nothing is asked for.
            (!flags.is_empty()).then(|| (Some(child.agent), child.wire.as_fd(), flags))
        });
        let callers = self.callers.interests();
        callers
            .map(|(descriptor, flags)| (None, descriptor, flags))
            .chain(children)
    }

    /// When to step even if no descriptor is ready.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.callers.deadline()
    }

    /// A child's connection can be read or written.
    pub(super) fn is_ready(&mut self, agent: u32) {
        let child = self.children.iter_mut().find(|it| it.agent == agent);
        if let Some(child) = child {
            child.is_ready = true;
        }
    }

    /// Lets children in, and returns the messages to pass up.
    pub(super) fn step(&mut self, room: bool) -> Vec<FromAgent> {
        let mut up = Vec::new();
        for (wire, first) in self.callers.step() {
            if let FromAgent::Attach(agent) = first
                && self.branch.tree.parent(agent) == Some(self.branch.agent)
            {
                self.children.retain(|child| child.agent != agent);
                self.children.push(Child {
                    agent,
                    wire,
                    is_ready: true,
                });
                up.push(FromAgent::Attach(agent));
            }
        }
        let branch = self.branch;
        self.children.retain_mut(|child| {
            let goes_on = child.serve(branch, room, &mut up);
            if !goes_on {
                up.push(FromAgent::Detached(child.agent));
            }
            goes_on
        });
        up
    }

    /// Passes a frame to those of the agents that are below this one.
    pub(super) fn pass(&mut self, to: &[Addressed], frame: &Bytes) {
        let mut by_child: BTreeMap<u32, Vec<Addressed>> = BTreeMap::new();
        for to in to {
            if let Some(child) = self.branch.tree.next_hop(self.branch.agent, to.agent) {
                by_child.entry(child).or_default().push(*to);
            }
        }
        for (child, to) in by_child {
            let frame = frame.clone();
            self.say(child, &ToAgent::Pass { to, frame });
        }
    }

    /// Passes another message on to an agent.
    pub(super) fn pass_one(&mut self, agent: u32, message: &ToAgent) {
        if let Some(child) = self.branch.tree.next_hop(self.branch.agent, agent) {
            self.say(child, message);
        }
    }

    /// The launcher has given up an agent: its connection is closed by the agent above it.
    pub(super) fn cut(&mut self, agent: u32) {
        if self.branch.tree.parent(agent) == Some(self.branch.agent) {
            self.children.retain(|child| child.agent != agent);
        } else {
            self.pass_one(agent, &ToAgent::Cut(agent));
        }
    }

    /// What a lost connection loses comes again over another one.
    fn say(&mut self, child: u32, message: &ToAgent) {
        if let Some(child) = self.children.iter_mut().find(|it| it.agent == child) {
            let _ = child.wire.say(message);
            // The connection is flushed, and its end noticed, in the next step.
            child.is_ready = true;
        }
    }

    /// Waits until the children have taken all messages, or the time is over.
    pub(super) fn flush_until(&mut self, give_up_at: Instant) {
        for child in &mut self.children {
            let _ = child.wire.wait_flushed(Some(give_up_at));
        }
    }
}

impl Child {
    /// Passes messages on. `false`: the connection is not to be used any more.
    fn serve(&mut self, branch: Branch, room: bool, up: &mut Vec<FromAgent>) -> bool {
        if !std::mem::take(&mut self.is_ready) {
            return true;
        }
        if self.wire.flush().is_err() || self.wire.unsent_bytes() > UNSENT_BYTES_MAX {
            return false;
        }
        if !room {
            // Messages may be in the buffer.
            self.is_ready = true;
            return true;
        }
        let received = self.wire.receive();
        loop {
            match self.wire.next_message() {
                Ok(Some(message)) if self.is_below(branch, &message) => up.push(message),
                Ok(None) => return received.is_ok(),
                _ => return false,
            }
        }
    }

    /// Whether the message is of the child, or of an agent below it.
    fn is_below(&self, branch: Branch, message: &FromAgent) -> bool {
        let (FromAgent::Attach(agent)
        | FromAgent::Detached(agent)
        | FromAgent::Pass { from: agent, .. }
        | FromAgent::Resume { agent, .. }
        | FromAgent::Received { agent, .. }) = message
        else {
            return false;
        };
        branch.tree.next_hop(branch.agent, *agent) == Some(self.agent)
    }
}
