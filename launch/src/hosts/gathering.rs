//! Starts agents, and waits until all of them have connected and are ready.

use super::Host;
use super::agent_process::AgentProcess;
use super::far::AgentHandle;
use super::invitation::Invitation;
use super::lease::Grant;
use super::listing::{HostsSpec, Tasks};
use super::message::{AGENT, FromAgent, Refusal, ServicesReady, Setup, ToAgent};
use crate::boot_clock::since_boot;
use crate::error::LaunchError;
use crate::same_memory::report_differing_addresses;
use crate::signals::Signals;
use refrain_job::JobError;
use refrain_job::config::JobConfig;
use refrain_wire::{Connection, Door, Secret};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};
use std::{fs, io};

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

/// A host whose agent is not ready.
#[derive(Debug)]
struct Waiting {
    name: String,
    placed: Placed,
    agent_process: AgentProcess,
    wire: Option<Connection>,
    ready: Option<(Box<JobConfig>, u128, Option<ServicesReady>)>,
}

/// Agents that are started but not all ready. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Gathering {
    setup: Setup,
    door: Door,
    secret: Secret,
    port: u16,
    give_up_at: Instant,
    waiting: Vec<Waiting>,
    /// Authenticated connections whose hosts are not known yet.
    unnamed: Vec<Connection>,
}

impl Gathering {
    /// Starts these agents; `setup` is sent to each with its own ranks filled in.
    ///
    /// # Errors
    /// [`JobError::Config`] and [`LaunchError::Program`] when an agent cannot be started. No process
    /// is left running then.
    pub(super) fn start(
        spec: &HostsSpec,
        setup: Setup,
        placed: Vec<Placed>,
    ) -> Result<Self, LaunchError> {
        let system = |error| JobError::control("listening for the agents of the job", error);
        let secret = Secret::random().map_err(system)?;
        let (door, port) = Door::open(secret.clone(), &AGENT).map_err(system)?;
        let mut gathering = Self {
            setup,
            door,
            secret,
            port,
            give_up_at: Instant::now() + READY_MAX,
            waiting: Vec::new(),
            unnamed: Vec::new(),
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
            gathering.waiting.push(Waiting {
                agent_process: AgentProcess::start(spec, &name, &invitation)?,
                name,
                placed,
                wire: None,
                ready: None,
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
        // An agent whose connection was closed may connect again.
        self.unnamed.extend(self.door.step(Instant::now()));
        self.learn_names();
        for waiting in &mut self.waiting {
            waiting.serve()?;
        }
        let are_ready = self.waiting.iter().all(|waiting| waiting.ready.is_some());
        if !are_ready && Instant::now() >= self.give_up_at {
            return Err(self.late());
        }
        Ok(are_ready)
    }

    /// When to step even if no descriptor is ready.
    pub(super) fn wake_at(&self) -> Instant {
        let deadline = self.door.deadline();
        deadline.map_or(self.give_up_at, |at| at.min(self.give_up_at))
    }

    /// The descriptors to poll.
    pub(super) fn interests(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let named = self.waiting.iter().filter_map(|it| it.wire.as_ref());
        let wires = self.unnamed.iter().chain(named);
        let ends = self.waiting.iter();
        let ends = ends.filter_map(|it| it.agent_process.end_descriptor());
        std::iter::once((self.door.as_fd(), PollFlags::IN))
            .chain(wires.map(|wire| (wire.as_fd(), wire.interest())))
            .chain(ends.map(|end| (end, PollFlags::IN)))
    }

    /// Reads from new connections which host their agents are on.
    fn learn_names(&mut self) {
        for mut wire in std::mem::take(&mut self.unnamed) {
            let received = wire.receive();
            match wire.next_message() {
                Ok(Some(FromAgent::Hello(host))) => {
                    let mut waiting = self.waiting.iter_mut();
                    let Some(waiting) = waiting.find(|it| it.placed.number == host) else {
                        continue;
                    };
                    let setup = ToAgent::Setup(Box::new(Setup {
                        ranks: waiting.placed.ranks.clone(),
                        services: (self.setup.services.clone())
                            .filter(|_| waiting.placed.is_for_services),
                        ..self.setup.clone()
                    }));
                    // If an agent connects twice, its last connection is used.
                    if wire.say(&setup).and_then(|()| wire.flush()).is_ok() {
                        waiting.wire = Some(wire);
                    }
                }
                Ok(None) if received.is_ok() => self.unnamed.push(wire),
                // The agent may connect again.
                _ => {}
            }
        }
    }

    fn late(&self) -> LaunchError {
        let late = self
            .waiting
            .iter()
            .filter(|waiting| waiting.ready.is_none());
        let names: Vec<&str> = late.map(|waiting| waiting.name.as_str()).collect();
        let why = match self.door.trouble() {
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

    /// The hosts; all are ready. Each has its first lease, if the job has leases.
    ///
    /// # Errors
    /// An agent was lost meanwhile.
    pub(super) fn finish(mut self) -> Result<Vec<Host>, LaunchError> {
        let mut hosts = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            let (Some(wire), Some((config, boot, services))) = (waiting.wire, waiting.ready) else {
                let lost = format!("host {}: the agent was lost at the start", waiting.name);
                return Err(JobError::Config(lost).into());
            };
            let launcher = wire.own_address();
            let launcher: IpAddr = launcher.map_err(|error| JobError::Config(error.to_string()))?;
            let address = wire.peer_address();
            let address: IpAddr = address.map_err(|error| JobError::Config(error.to_string()))?;
            let lease = self.setup.lease;
            let agent = AgentHandle::default();
            if lease.is_some() {
                agent.push(ToAgent::Lease);
            }
            hosts.push(Host {
                name: waiting.name,
                placed: waiting.placed,
                agent,
                wire: Some(wire),
                agent_process: waiting.agent_process,
                config: *config,
                launcher,
                address,
                services,
                boot,
                grant: lease.map(|length| Grant::first(length, since_boot())),
            });
        }
        Ok(hosts)
    }
}

impl Waiting {
    /// Serves the messages of the agent.
    fn serve(&mut self) -> Result<(), LaunchError> {
        if let Some(wire) = &mut self.wire {
            let _ = wire.flush();
            let received = wire.receive();
            match wire.next_message() {
                Ok(Some(FromAgent::Ready {
                    config,
                    boot,
                    differing_addresses,
                    services,
                })) => {
                    if let Some(why) = differing_addresses {
                        report_differing_addresses(&format!("host {}: ", self.name), &why);
                    }
                    self.ready = Some((config, boot, services));
                }
                Ok(Some(FromAgent::Refused { refusal, reason })) => {
                    return Err(self.refused(refusal, &reason));
                }
                Ok(None) if received.is_ok() => {}
                // The end of its process gives the reason.
                _ => self.wire = None,
            }
        }
        // Messages that it sent before its end are read first.
        match self.agent_process.status() {
            Some(status) => Err(self.agent_process.gone(&self.name, status.into())),
            None => Ok(()),
        }
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

impl Drop for Gathering {
    fn drop(&mut self) {
        self.unnamed.clear();
        let give_up_at = Instant::now() + super::END_MAX;
        for waiting in &mut self.waiting {
            waiting.wire = None;
            waiting.agent_process.close_stdin();
        }
        for waiting in &mut self.waiting {
            waiting.agent_process.end(give_up_at);
        }
    }
}

/// The addresses of this host, those of the loopback last. Empty only if `/proc` is missing.
fn addresses_of_this_host() -> Vec<IpAddr> {
    let trie = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let six = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let four = of_trie(&trie).into_iter().map(IpAddr::V4);
    let mut all: Vec<IpAddr> = four.chain(of_interfaces(&six).map(IpAddr::V6)).collect();
    all.sort_by_key(IpAddr::is_loopback);
    all
}

/// `/proc/net/fib_trie`: a local address is a line `|-- ADDRESS`, and one below it
/// says `/32 host LOCAL`.
fn of_trie(text: &str) -> Vec<Ipv4Addr> {
    let mut found: Vec<Ipv4Addr> = Vec::new();
    let mut last = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last.filter(|address| !found.contains(address)));
        }
    }
    found
}

/// `/proc/net/if_inet6`: 32 digits, the interface, prefix length, scope, flags, name.
/// Link-local addresses (scope 20) are useless without an interface.
fn of_interfaces(text: &str) -> impl Iterator<Item = Ipv6Addr> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let digits = words.next()?;
        let is_wide = words.nth(2)? != "20";
        let bits = u128::from_str_radix(digits, 16).ok();
        bits.filter(|_| is_wide).map(Ipv6Addr::from_bits)
    })
}

#[cfg(test)]
mod addresses_tests {
    use super::*;

    #[test]
    fn local_addresses_are_found_once_and_loopback_is_last() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
                    \x20    |-- 10.1.0.0\n        /16 link UNICAST\n     |-- 10.1.0.7\n\
                    \x20       /32 host LOCAL\n     |-- 10.1.255.255\n        /32 link BROADCAST\n\
                    Local:\n     |-- 10.1.0.7\n        /32 host LOCAL\n     |-- 127.0.0.1\n\
                    \x20       /32 host LOCAL\n";
        let found = of_trie(trie);
        assert_eq!(found, [Ipv4Addr::new(10, 1, 0, 7), Ipv4Addr::LOCALHOST]);
        let six = "fe800000000000000000000000000001 02 40 20 80 eth0\n\
                   20010db8000000000000000000000007 02 40 00 80 eth0\nrubbish\n";
        let found: Vec<Ipv6Addr> = of_interfaces(six).collect();
        assert_eq!(found, ["2001:db8::7".parse::<Ipv6Addr>().unwrap()]);
        let here = addresses_of_this_host();
        assert!(here.is_sorted_by_key(IpAddr::is_loopback), "{here:?}");
    }
}
