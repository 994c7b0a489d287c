//! Starts agents, and waits until all of them have connected and are ready.

use super::Host;
use super::agent_process::AgentProcess;
use super::callers::{Callers, addresses_of_this_host};
use super::far::AgentHandle;
use super::invitation::Invitation;
use super::lease::Grant;
use super::listing::{HostsSpec, Tasks};
use super::message::{AgentDoor, FromAgent, Refusal, ServicesReady, Setup, ToAgent};
use super::numbered::Numbered;
use super::passing::Way;
use super::tree::{Branch, Tree};
use crate::boot_clock::since_boot;
use crate::error::LaunchError;
use crate::same_memory::report_differing_addresses;
use crate::signals::Signals;
use refrain_job::JobError;
use refrain_job::config::JobConfig;
use refrain_job::stderr::report;
use refrain_wire::{Connection, Secret};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

/// Time for agents to connect and to be ready.
const READY_MAX: Duration = Duration::from_secs(60);

/// Where an agent is started, and for which ranks.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// Index of the host in the list of hosts.
    pub place: usize,
    /// Number of the host on which the job began with these ranks.
    pub number: u32,
    /// The ranks.
    pub ranks: Vec<u32>,
    /// The host gets services, instead of ranks or beside them.
    pub is_for_services: bool,
}

impl Placed {
    /// The host gets services, and never ranks.
    pub(super) fn is_for_services_only(&self) -> bool {
        self.is_for_services && self.ranks.is_empty()
    }
}

/// What an agent has said when it was ready.
#[derive(Debug)]
struct Ready {
    config: Box<JobConfig>,
    boot: u128,
    services: Option<ServicesReady>,
    door: Option<AgentDoor>,
    /// The launcher's address, as the agent's host reaches it.
    launcher: IpAddr,
    /// The agent's address, as this host reaches it.
    address: IpAddr,
}

/// How an agent is connected in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attachment {
    /// Not known yet.
    Open,
    /// The agent was asked to connect with its parent.
    Asked,
    /// With the launcher.
    Direct,
    /// Through its parent; with a connection: with the launcher, since that one has ended.
    Below,
}

/// A host whose agent is not ready.
#[derive(Debug)]
struct Waiting {
    name: String,
    placed: Placed,
    agent_process: AgentProcess,
    wire: Option<Connection>,
    ready: Option<Ready>,
    attachment: Attachment,
}

/// Dropping it ends the agents.
#[derive(Debug, Default)]
struct Agents(Vec<Waiting>);

/// Agents that are started but not all ready. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Gathering {
    setup: Setup,
    /// Dropped first.
    callers: Callers,
    secret: Secret,
    port: u16,
    give_up_at: Instant,
    tree: Option<Tree>,
    agents: Agents,
}

impl Gathering {
    /// Starts these agents; `setup` is sent to each with its own ranks filled in. With a tree they are
    /// its agents, in this order.
    ///
    /// # Errors
    /// [`JobError::Config`] and [`LaunchError::Program`] when an agent cannot be started. No process
    /// is left running then.
    pub(super) fn start(
        spec: &HostsSpec,
        setup: Setup,
        placed: Vec<Placed>,
        tree: Option<Tree>,
    ) -> Result<Self, LaunchError> {
        let system = |error| JobError::control("listening for the agents of the job", error);
        let secret = Secret::random().map_err(system)?;
        let (callers, port) = Callers::open(secret.clone()).map_err(system)?;
        let mut gathering = Self {
            setup,
            callers,
            secret,
            port,
            give_up_at: Instant::now() + READY_MAX,
            tree,
            agents: Agents::default(),
        };
        let addresses = addresses_of_this_host();
        for placed in placed {
            let name = spec.hosts[placed.place].name.clone();
            let invitation = Invitation {
                job: gathering.setup.job,
                host: placed.number,
                secret: gathering.secret.clone(),
                port: gathering.port,
                addresses: addresses.clone(),
            };
            let number = gathering.agents.0.len() as u32;
            let parent = tree.and_then(|tree| tree.parent(number));
            gathering.agents.0.push(Waiting {
                agent_process: AgentProcess::start(spec, &name, &invitation)?,
                name,
                placed,
                wire: None,
                ready: None,
                attachment: match parent {
                    None => Attachment::Direct,
                    Some(_) => Attachment::Open,
                },
            });
        }
        Ok(gathering)
    }

    /// Gives tasks that others have started what they need to become the agents.
    ///
    /// # Errors
    /// Of the tasks' server.
    pub(super) fn publish(&self, tasks: &Tasks) -> Result<(), JobError> {
        let invitation = Invitation {
            job: self.setup.job,
            host: 0,
            secret: self.secret.clone(),
            port: self.port,
            addresses: addresses_of_this_host(),
        };
        invitation.publish(tasks)
    }

    /// Serves the agents until all are ready.
    ///
    /// # Errors
    /// As [`step`](Self::step), and [`LaunchError::Interrupted`] when a signal that ends the job has
    /// arrived.
    pub(super) fn wait(&mut self, mut signals: Option<&mut Signals>) -> Result<(), LaunchError> {
        while !self.step()? {
            let mut polled: Vec<PollFd<'_>> = self
                .interests()
                .map(|(descriptor, events)| PollFd::from_borrowed_fd(descriptor, events))
                .collect();
            if let Some(signals) = &signals {
                let signals = signals.descriptor();
                polled.push(PollFd::from_borrowed_fd(signals, PollFlags::IN));
            }
            let longest = self.wake_at().saturating_duration_since(Instant::now());
            // If the poll fails, the calls that follow return the error.
            let _ = poll(&mut polled, Timespec::try_from(longest).ok().as_ref());
            if let Some(signals) = &mut signals {
                signals.look()?;
            }
        }
        Ok(())
    }

    /// Serves the agents, without waiting. `true`: all are ready.
    ///
    /// # Errors
    /// [`JobError::Config`] and [`LaunchError::Program`] when a host cannot be reached or its agent
    /// cannot start ranks, with the host.
    pub(super) fn step(&mut self) -> Result<bool, LaunchError> {
        for (wire, first) in self.callers.step() {
            match first {
                FromAgent::Hello(host) => self.set_up(wire, host),
                FromAgent::Attach(agent) => self.has_called(wire, agent),
                _ => {}
            }
        }
        for index in 0..self.agents.0.len() {
            for agent in self.agents.0[index].serve()? {
                self.has_attached(agent);
            }
        }
        self.build_tree();
        let are_ready = self.agents.0.iter().all(Waiting::is_done);
        if !are_ready && Instant::now() >= self.give_up_at {
            return Err(self.late());
        }
        Ok(are_ready)
    }

    /// When to step even if no descriptor is ready.
    pub(super) fn wake_at(&self) -> Instant {
        let deadline = self.callers.deadline();
        deadline.map_or(self.give_up_at, |at| at.min(self.give_up_at))
    }

    /// The descriptors to poll.
    pub(super) fn interests(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let agents = &self.agents.0;
        let wires = agents.iter().filter_map(|it| it.wire.as_ref());
        let ends = agents.iter();
        let ends = ends.filter_map(|it| it.agent_process.end_descriptor());
        self.callers
            .interests()
            .chain(wires.map(|wire| (wire.as_fd(), wire.interest())))
            .chain(ends.map(|end| (end, PollFlags::IN)))
    }

    /// An agent has called: it gets the job.
    fn set_up(&mut self, mut wire: Connection, host: u32) {
        let mut agents = self.agents.0.iter_mut().zip(0..);
        let Some((waiting, agent)) = agents.find(|(it, _)| it.placed.number == host) else {
            return;
        };
        let setup = ToAgent::Setup(Box::new(Setup {
            ranks: waiting.placed.ranks.clone(),
            services: (self.setup.services.clone()).filter(|_| waiting.placed.is_for_services),
            branch: self.tree.map(|tree| Branch { tree, agent }),
            ..self.setup.clone()
        }));
        // If an agent connects twice, its last connection is used.
        if wire.say(&setup).and_then(|()| wire.flush()).is_ok() {
            waiting.wire = Some(wire);
        }
    }

    /// An agent is connected with its parent.
    fn has_attached(&mut self, agent: u32) {
        if let Some(waiting) = self.agents.0.get_mut(agent as usize)
            && waiting.attachment == Attachment::Asked
        {
            waiting.attachment = Attachment::Below;
            waiting.wire = None;
        }
    }

    /// An agent has lost the connection with its parent.
    fn has_called(&mut self, wire: Connection, agent: u32) {
        if let Some(waiting) = self.agents.0.get_mut(agent as usize)
            && matches!(waiting.attachment, Attachment::Asked | Attachment::Below)
        {
            waiting.attachment = Attachment::Below;
            waiting.wire = Some(wire);
        }
    }

    /// Asks ready agents to connect with their parents, level by level: a message through a parent
    /// must not cross its own change.
    fn build_tree(&mut self) {
        let Some(tree) = self.tree else { return };
        for agent in 0..self.agents.0.len() {
            let parent = tree.parent(agent as u32);
            let parent = parent.map(|parent| &self.agents.0[parent as usize]);
            let Some(parent) = parent.filter(|it| it.is_done()) else {
                continue;
            };
            let door = parent.ready.as_ref().and_then(Ready::reached_at);
            let waiting = &mut self.agents.0[agent];
            if let (Attachment::Open, Some(_), Some(wire), Some(door)) =
                (waiting.attachment, &waiting.ready, &mut waiting.wire, door)
            {
                waiting.attachment = Attachment::Asked;
                // If it fails, the end of its process gives the reason.
                let _ = wire.say(&ToAgent::Attach(door));
                let _ = wire.flush();
            }
        }
    }

    fn late(&self) -> LaunchError {
        let late = self.agents.0.iter().filter(|it| !it.is_done());
        let names: Vec<&str> = late.map(|waiting| waiting.name.as_str()).collect();
        let why = match self.callers.trouble() {
            None => "they must reach this host by TCP at any port: check firewalls".into(),
            Some(error) => format!("this host could not accept connections: {error}"),
        };
        JobError::Config(format!(
            "the agents on {} did not connect within {} s: {why}",
            names.join(", "),
            READY_MAX.as_secs()
        ))
        .into()
    }

    /// The hosts; all are ready. Each has its first lease, if the job has leases. Also returns the
    /// door, where agents of the tree may call again.
    ///
    /// # Errors
    /// An agent was lost meanwhile.
    pub(super) fn finish(mut self) -> Result<(Vec<Host>, Callers), LaunchError> {
        let mut hosts = Vec::new();
        for waiting in std::mem::take(&mut self.agents.0) {
            let is_below = waiting.attachment == Attachment::Below;
            let way = match waiting.wire {
                Some(wire) => Some(Way::Direct(Box::new(wire))),
                None => is_below.then_some(Way::Below),
            };
            let (Some(way), Some(ready)) = (way, waiting.ready) else {
                let lost = format!("host {}: the agent was lost at the start", waiting.name);
                return Err(JobError::Config(lost).into());
            };
            let lease = self.setup.lease;
            let agent = AgentHandle::default();
            if lease.is_some() {
                agent.push(ToAgent::Lease);
            }
            hosts.push(Host {
                name: waiting.name,
                placed: waiting.placed,
                agent,
                way,
                numbered: is_below.then(Numbered::default),
                agent_process: waiting.agent_process,
                config: *ready.config,
                launcher: ready.launcher,
                address: ready.address,
                services: ready.services,
                boot: ready.boot,
                grant: lease.map(|length| Grant::first(length, since_boot())),
            });
        }
        Ok((hosts, self.callers))
    }
}

impl Ready {
    /// Where the agents below this one find it.
    fn reached_at(&self) -> Option<AgentDoor> {
        let mut door = self.door.clone()?;
        door.addresses.retain(|address| *address != self.address);
        door.addresses.insert(0, self.address);
        Some(door)
    }
}

impl Waiting {
    /// The agent is ready, and has its place in the tree.
    fn is_done(&self) -> bool {
        let has_place = matches!(self.attachment, Attachment::Direct | Attachment::Below);
        self.ready.is_some() && has_place
    }

    /// Serves the messages of the agent. Returns agents that have attached through it.
    fn serve(&mut self) -> Result<Vec<u32>, LaunchError> {
        let mut attached = Vec::new();
        if let Some(wire) = &mut self.wire {
            let _ = wire.flush();
            let received = wire.receive();
            while let Some(wire) = &mut self.wire {
                match wire.next_message() {
                    Ok(Some(FromAgent::Attach(agent))) => attached.push(agent),
                    Ok(Some(message)) => self.take_word(message)?,
                    Ok(None) if received.is_ok() => break,
                    // The end of its process gives the reason.
                    _ => self.wire = None,
                }
            }
        }
        // Messages that it sent before its end are read first.
        match self.agent_process.status() {
            Some(status) => Err(self.agent_process.gone(&self.name, status.into())),
            None => Ok(attached),
        }
    }

    fn take_word(&mut self, message: FromAgent) -> Result<(), LaunchError> {
        match message {
            FromAgent::Ready {
                config,
                boot,
                differing_addresses,
                services,
                door,
            } => {
                if let Some(why) = differing_addresses {
                    report_differing_addresses(&format!("host {}: ", self.name), &why);
                }
                let Some(wire) = &self.wire else {
                    return Ok(());
                };
                let wrong = |error: io::Error| JobError::Config(error.to_string());
                self.ready = Some(Ready {
                    config,
                    boot,
                    services,
                    door,
                    launcher: wire.own_address().map_err(wrong)?,
                    address: wire.peer_address().map_err(wrong)?,
                });
            }
            FromAgent::Refused { refusal, reason } => return Err(self.refused(refusal, &reason)),
            FromAgent::CannotAttach(why) => {
                report(format!(
                    "host {}: its agent stays connected with the launcher: {why}",
                    self.name
                ));
                self.attachment = Attachment::Direct;
            }
            // Frames and signals of agents below come again.
            FromAgent::Pass { .. }
            | FromAgent::Received { .. }
            | FromAgent::Detached(_)
            | FromAgent::Signalled => {}
            // The end of its process gives the reason.
            _ => self.wire = None,
        }
        Ok(())
    }

    fn refused(&self, refusal: Refusal, reason: &str) -> LaunchError {
        let reason = format!("host {}: {reason}", self.name);
        match refusal {
            Refusal::Config => JobError::Config(reason).into(),
            Refusal::ProgramMissing => LaunchError::Program {
                reason,
                found: false,
            },
            Refusal::ProgramUnusable => LaunchError::Program {
                reason,
                found: true,
            },
            Refusal::System => {
                JobError::control(reason, io::Error::other("the agent failed")).into()
            }
        }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        let give_up_at = Instant::now() + super::END_MAX;
        for waiting in &mut self.0 {
            waiting.wire = None;
            waiting.agent_process.close_stdin();
        }
        for waiting in &mut self.0 {
            waiting.agent_process.end(give_up_at);
        }
    }
}
