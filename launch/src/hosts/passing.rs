//! Messages between the launcher and the agents of a tree: by which connection, once, in order, and
//! after a break again. Docs: `docs/design/agent-tree.md`.

use super::Hosts;
use super::callers::Callers;
use super::message::{ADDRESSED_MAX, Addressed, FromAgent, ToAgent, of_frame};
use super::tree::Tree;
use bytes::Bytes;
use refrain_wire::{Connection, WireError};
use rustix::event::PollFlags;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// How the launcher reaches an agent.
#[derive(Debug)]
pub(super) enum Way {
    /// By a connection of its own.
    Direct(Box<Connection>),
    /// Through its parent in the tree.
    Below,
    /// Its connection has ended, and it is to call again.
    Awaited,
    /// It is lost.
    Lost,
}

/// The tree of a job's agents.
#[derive(Debug)]
pub(super) struct Branches {
    tree: Tree,
    /// Where agents call whose connections have ended.
    callers: Callers,
}

impl Branches {
    pub(super) fn new(tree: Tree, callers: Callers) -> Self {
        Self { tree, callers }
    }
}

/// An agent is lost, and why.
pub(super) type LostAgent = (usize, String);

impl Hosts {
    /// Whether agents pass messages on.
    pub(crate) fn are_a_tree(&self) -> bool {
        self.branches.is_some()
    }

    /// The descriptors of agents that call again.
    pub(super) fn interests_of_callers(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let branches = self.branches.iter();
        branches.flat_map(|branches| branches.callers.interests())
    }

    /// When to serve them even if no descriptor is ready.
    pub(super) fn next_step_of_callers(&self) -> Option<Instant> {
        self.branches.as_ref()?.callers.deadline()
    }

    /// The agent over whose connection messages go to another one; `None`: there is none now.
    fn via(&self, agent: usize) -> Option<usize> {
        let mut at = agent;
        loop {
            match self.hosts[at].way {
                Way::Direct(_) => return Some(at),
                Way::Below => at = self.branches.as_ref()?.tree.parent(at as u32)? as usize,
                Way::Awaited | Way::Lost => return None,
            }
        }
    }

    /// Whether no connection leads to an agent that is not lost.
    pub(super) fn is_cut_off(&self, agent: usize) -> bool {
        !self.hosts[agent].is_lost() && self.via(agent).is_none()
    }

    /// Queues a message on a connection. Its end is noticed when it is flushed or read.
    fn say_by(&mut self, via: Option<usize>, message: &ToAgent) -> Result<(), WireError> {
        match via.map(|via| &mut self.hosts[via].way) {
            Some(Way::Direct(wire)) => wire.say(message),
            // Numbered messages come again when there is a connection.
            _ => Ok(()),
        }
    }

    /// Queues a message for an agent.
    fn tell(&mut self, agent: usize, message: &ToAgent) -> Result<(), WireError> {
        let via = self.via(agent);
        if self.hosts[agent].numbered.is_none() {
            return self.say_by(via, message);
        }
        let frame = message.to_frame()?;
        if let Some(to) = self.keep(agent, frame.clone()) {
            let to = vec![to];
            self.say_by(via, &ToAgent::Pass { to, frame })?;
        }
        Ok(())
    }

    /// Numbers a frame for an agent.
    fn keep(&mut self, agent: usize, frame: Bytes) -> Option<Addressed> {
        let numbered = self.hosts[agent].numbered.as_mut()?;
        Some(Addressed {
            agent: agent as u32,
            number: numbered.send(frame),
            received: numbered.tell_received(),
        })
    }

    /// Sends as much of the messages as the agents take. Returns the agents that are lost.
    pub(super) fn flush(&mut self) -> Vec<LostAgent> {
        for agent in 0..self.hosts.len() {
            let messages = self.hosts[agent].agent.take();
            if self.hosts[agent].is_lost() {
                continue;
            }
            let told = messages
                .iter()
                .try_for_each(|message| self.tell(agent, message))
                .and_then(|()| self.tell_received(agent));
            if let Err(error) = told {
                self.note_break(agent, error);
            }
        }
        for agent in 0..self.hosts.len() {
            if let Way::Direct(wire) = &mut self.hosts[agent].way
                && let Err(error) = wire.flush()
            {
                self.note_break(agent, error);
            }
        }
        std::mem::take(&mut self.lost)
    }

    /// Tells an agent what was received of it, if no frame has.
    fn tell_received(&mut self, agent: usize) -> Result<(), WireError> {
        let numbered = self.hosts[agent].numbered.as_mut();
        let Some(numbered) = numbered.filter(|it| it.is_due()) else {
            return Ok(());
        };
        let received = numbered.tell_received();
        let agent_number = agent as u32;
        let told = ToAgent::Received {
            agent: agent_number,
            received,
        };
        self.say_by(self.via(agent), &told)
    }

    /// Sends a message to all agents, once over each connection.
    pub(crate) fn tell_all(&mut self, message: &ToAgent) {
        // Behind all earlier messages.
        let lost = self.flush();
        self.lost.extend(lost);
        let frame = match message.to_frame() {
            Ok(frame) => frame,
            Err(error) => {
                return (0..self.hosts.len())
                    .for_each(|agent| self.lost.push((agent, error.to_string())));
            }
        };
        let mut by_connection: Vec<Vec<Addressed>> = vec![Vec::new(); self.hosts.len()];
        for agent in 0..self.hosts.len() {
            if self.hosts[agent].is_lost() {
                continue;
            }
            if let Some(to) = self.keep(agent, frame.clone())
                && let Some(via) = self.via(agent)
            {
                by_connection[via].push(to);
            }
        }
        for (via, to) in by_connection.iter().enumerate() {
            for to in to.chunks(ADDRESSED_MAX) {
                let pass = ToAgent::Pass {
                    to: to.to_vec(),
                    frame: frame.clone(),
                };
                let said = self.say_by(Some(via), &pass);
                self.note(via, said);
            }
            if self.hosts[via].numbered.is_none() {
                let said = self.say_by(Some(via), message);
                self.note(via, said);
            }
        }
    }

    fn note(&mut self, agent: usize, said: Result<(), WireError>) {
        if let Err(error) = said {
            self.note_break(agent, error);
        }
    }

    /// The connection with an agent has ended. The agent is lost, unless it can call again.
    fn note_break(&mut self, agent: usize, error: WireError) {
        let host = &mut self.hosts[agent];
        let can_call = host.numbered.is_some() && !matches!(error, WireError::Frame(_));
        match can_call {
            true if matches!(host.way, Way::Direct(_)) => host.way = Way::Awaited,
            true => {}
            false => self.lost.push((agent, error.to_string())),
        }
    }

    /// Reads the messages that have come over the connection with an agent, with the agents that have
    /// sent them.
    pub(super) fn hear(&mut self, number: usize) -> (Vec<(usize, FromAgent)>, Vec<LostAgent>) {
        let mut heard = Vec::new();
        let Way::Direct(wire) = &mut self.hosts[number].way else {
            return (heard, Vec::new());
        };
        let received = wire.receive().map(drop);
        let received = loop {
            let Way::Direct(wire) = &mut self.hosts[number].way else {
                break Ok(());
            };
            match wire.next_message() {
                Ok(Some(message)) => {
                    let taken = self.take_message(number, message);
                    heard.extend(taken);
                }
                Ok(None) => break received,
                Err(error) => break Err(error),
            }
        };
        self.note(number, received);
        (heard, std::mem::take(&mut self.lost))
    }

    /// The message of an agent, if it is one to serve: others concern connections. `number`: the agent
    /// over whose connection it has come.
    fn take_message(&mut self, number: usize, message: FromAgent) -> Option<(usize, FromAgent)> {
        match message {
            FromAgent::Pass {
                from,
                number,
                received,
                frame,
            } => {
                let agent = self.have_arrived(from, received)?;
                let numbered = self.hosts[agent].numbered.as_mut()?;
                let is_next = numbered.take(number, frame.len());
                let message = is_next.then(|| of_frame(frame))?;
                match message {
                    Ok(message) => return Some((agent, message)),
                    Err(error) => self.lost.push((agent, error.to_string())),
                }
            }
            FromAgent::Received { agent, received } => {
                self.have_arrived(agent, received);
            }
            FromAgent::Resume { agent, received } => {
                if let Some(agent) = self.have_arrived(agent, received) {
                    let sent = self.send_again(agent);
                    self.note(agent, sent);
                }
            }
            FromAgent::Attach(agent) => {
                let agent = agent as usize;
                if agent != number && self.can_call(agent) {
                    self.hosts[agent].way = Way::Below;
                    self.resume_below(agent);
                }
            }
            FromAgent::Detached(agent) => {
                let agent = agent as usize;
                if self.can_call(agent) && matches!(self.hosts[agent].way, Way::Below) {
                    self.hosts[agent].way = Way::Awaited;
                }
            }
            message => return Some((number, message)),
        }
        None
    }

    /// Whether an agent may have a new connection.
    fn can_call(&self, agent: usize) -> bool {
        let host = self.hosts.get(agent);
        host.is_some_and(|host| host.numbered.is_some() && !host.is_lost())
    }

    /// An agent has received this number of frames. Returns it, unless it is lost.
    fn have_arrived(&mut self, agent: u32, received: u64) -> Option<usize> {
        let agent = agent as usize;
        let host = self.hosts.get_mut(agent).filter(|host| !host.is_lost())?;
        if !host.numbered.as_mut()?.have_arrived(received) {
            let why = format!("it has counted {received} messages, which were not sent");
            self.lost.push((agent, why));
            return None;
        }
        Some(agent)
    }

    fn send_again(&mut self, agent: usize) -> Result<(), WireError> {
        let via = self.via(agent);
        let Some(numbered) = &mut self.hosts[agent].numbered else {
            return Ok(());
        };
        let received = numbered.tell_received();
        for (number, frame) in numbered.again() {
            let to = vec![Addressed {
                agent: agent as u32,
                number,
                received,
            }];
            self.say_by(via, &ToAgent::Pass { to, frame })?;
        }
        Ok(())
    }

    /// An agent has a new connection: messages for it and all below it may have been lost.
    pub(super) fn resume_below(&mut self, agent: usize) {
        let Some(branches) = &self.branches else {
            return;
        };
        let tree = branches.tree;
        for below in agent..self.hosts.len() {
            let is_this = below == agent || tree.next_hop(agent as u32, below as u32).is_some();
            if !is_this || self.hosts[below].is_lost() {
                continue;
            }
            let via = self.via(below);
            let Some(numbered) = &mut self.hosts[below].numbered else {
                continue;
            };
            let resume = ToAgent::Resume {
                agent: below as u32,
                received: numbered.tell_received(),
            };
            let said = self.say_by(via, &resume);
            if let Some(via) = via {
                self.note(via, said);
            }
        }
    }

    /// As [`resume_below`](Self::resume_below), for all agents.
    pub(super) fn resume_all(&mut self) {
        let of_launcher = |tree: Tree| (0..).take_while(move |agent| tree.parent(*agent).is_none());
        let tree = self.branches.as_ref().map(|it| it.tree);
        for agent in tree.into_iter().flat_map(of_launcher) {
            self.resume_below(agent as usize);
        }
    }

    /// Serves agents that call again. Returns those whose connections may have messages. One that was
    /// given up is not let in: it ends.
    pub(super) fn step_callers(&mut self) -> Vec<usize> {
        let mut called = Vec::new();
        let callers = self.branches.as_mut().map(|it| it.callers.step());
        for (wire, first) in callers.into_iter().flatten() {
            if let FromAgent::Attach(agent) = first
                && self.can_call(agent as usize)
            {
                let agent = agent as usize;
                self.hosts[agent].way = Way::Direct(Box::new(wire));
                self.resume_below(agent);
                called.push(agent);
            }
        }
        called
    }

    /// Makes the parent of a lost agent close its connection.
    pub(super) fn cut(&mut self, agent: usize) {
        let branches = self.branches.as_ref();
        let parent = branches.and_then(|it| it.tree.parent(agent as u32));
        if let Some(via) = parent.and_then(|parent| self.via(parent as usize)) {
            let said = self.say_by(Some(via), &ToAgent::Cut(agent as u32));
            self.note(via, said);
        }
    }
}
