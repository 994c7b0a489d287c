//! Starts the agents of a job, and waits until all have connected and are ready.

use super::agent_process::{AgentProcess, check_setup};
use super::far::AgentHandle;
use super::invitation::{Invitation, LOCAL_NAME};
use super::listing::{self, HostsSpec};
use super::message::{AGENT, FromAgent, Refusal, Setup, ToAgent};
use super::{Host, Hosts};
use crate::error::LaunchError;
use crate::same_memory::report_differing_addresses;
use crate::service_process::ServiceProcess;
use crate::signals::Signals;
use refrain_job::JobError;
use refrain_job::config::JobConfig;
use refrain_wire::{Connection, Door, Secret};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use std::{fs, io};

/// Time for agents to connect and to be ready.
const READY_MAX: Duration = Duration::from_secs(60);
/// A host whose agent is not ready.
struct Waiting {
    name: String,
    ranks: Vec<u32>,
    /// Number of the host in the list of hosts.
    number: u32,
    agent_process: AgentProcess,
    wire: Option<Connection>,
    ready: Option<(Box<JobConfig>, u128)>,
}

/// All agents that are started but not ready. Dropping it ends them.
struct Gathering<'a> {
    setup: Setup,
    /// Signals that may end the wait.
    signals: Option<&'a mut Signals>,
    door: Door,
    waiting: Vec<Waiting>,
    /// Authenticated connections whose hosts are not known yet.
    unnamed: Vec<Connection>,
}

/// Starts an agent on each host that has ranks; `setup` is sent to each with its own ranks filled
/// in.
///
/// # Errors
/// [`JobError::Config`] and [`LaunchError::Program`] when a host cannot be reached or its agent
/// cannot start ranks, with the host; [`LaunchError::Interrupted`] when a signal that ends the job
/// has arrived. No process is left running then.
pub fn gather(
    spec: &HostsSpec,
    mut setup: Setup,
    signals: Option<&mut Signals>,
) -> Result<Hosts, LaunchError> {
    let wrong = |error: listing::NotAHost| JobError::Config(error.to_string());
    let of_rank = listing::place(setup.size, &spec.hosts).map_err(wrong)?;
    setup.config.collectives.host_of_rank = of_rank.iter().map(|host| *host as u32).collect();
    check_setup(&setup)?;
    let system = |error| JobError::control("listening for the agents of the job", error);
    let secret = Secret::random().map_err(system)?;
    let (door, port) = Door::open(secret.clone(), &AGENT).map_err(system)?;
    let mut gathering = Gathering {
        setup,
        signals,
        door,
        waiting: Vec::new(),
        unnamed: Vec::new(),
    };
    let addresses = addresses_of_this_host();
    for (number, host) in spec.hosts.iter().enumerate() {
        let ranks = (0..gathering.setup.size).filter(|rank| of_rank[*rank as usize] == number);
        let ranks: Vec<u32> = ranks.collect();
        if ranks.is_empty() {
            continue;
        }
        let invitation = Invitation {
            job: gathering.setup.job,
            host: number as u32,
            secret: secret.clone(),
            port,
            addresses: addresses.clone(),
        };
        let agent_process = match &spec.tasks {
            Some(_) if host.name != LOCAL_NAME => AgentProcess::started_by_others(),
            _ => AgentProcess::start(spec, &host.name, &invitation)?,
        };
        gathering.waiting.push(Waiting {
            name: host.name.clone(),
            ranks,
            number: number as u32,
            agent_process,
            wire: None,
            ready: None,
        });
    }
    if let Some(tasks) = &spec.tasks {
        Invitation {
            job: gathering.setup.job,
            host: 0,
            secret,
            port,
            addresses,
        }
        .publish(tasks)?;
    }
    gathering.wait(Instant::now() + READY_MAX)?;
    gathering.finish()
}

/// Agents on one machine (containers, network namespaces) do not see each other's ranks: each
/// agent is informed of the number of ranks that use the same cores.
fn share_cores(hosts: &mut [Host], boots: &[u128]) {
    let cores: Vec<Vec<u32>> = hosts.iter().map(|host| host.config.cores.clone()).collect();
    let own: Vec<u32> = hosts.iter().map(|host| host.config.ranks_on_host).collect();
    for (number, host) in hosts.iter_mut().enumerate() {
        let shares = |other: &usize| {
            let meet = cores[*other]
                .iter()
                .any(|core| cores[number].contains(core));
            boots[*other] == boots[number] && (meet || *other == number)
        };
        let ranks = (0..own.len()).filter(shares).map(|other| own[other]).sum();
        if ranks > own[number] {
            host.config.ranks_on_host = ranks;
            host.agent.push(ToAgent::Unpin);
        }
    }
}

impl Gathering<'_> {
    /// Serves the agents until all are ready.
    fn wait(&mut self, until: Instant) -> Result<(), LaunchError> {
        while self.waiting.iter().any(|waiting| waiting.ready.is_none()) {
            let now = Instant::now();
            if now >= until {
                return Err(self.late());
            }
            let wake_at = self.door.deadline().map_or(until, |at| at.min(until));
            self.poll(wake_at.saturating_duration_since(now));
            if let Some(signals) = &mut self.signals {
                signals.look()?;
            }
            // An agent whose connection was closed may connect again.
            self.unnamed.extend(self.door.step(Instant::now()));
            self.learn_names();
            for waiting in &mut self.waiting {
                waiting.serve()?;
            }
        }
        Ok(())
    }

    fn poll(&self, longest: Duration) {
        let mut polled = vec![PollFd::new(&self.door, PollFlags::IN)];
        if let Some(signals) = &self.signals {
            let signals = signals.descriptor();
            polled.push(PollFd::from_borrowed_fd(signals, PollFlags::IN));
        }
        let named = self
            .waiting
            .iter()
            .filter_map(|waiting| waiting.wire.as_ref());
        for wire in self.unnamed.iter().chain(named) {
            polled.push(PollFd::from_borrowed_fd(wire.as_fd(), wire.interest()));
        }
        for waiting in &self.waiting {
            if let Some(process) = &waiting.agent_process.process {
                let ended = process.end_descriptor();
                polled.push(PollFd::from_borrowed_fd(ended, PollFlags::IN));
            }
        }
        let longest = Timespec::try_from(longest).ok();
        // If the poll fails, the calls that follow return the error.
        let _ = poll(&mut polled, longest.as_ref());
    }

    /// Reads from new connections which host their agents are on.
    fn learn_names(&mut self) {
        for mut wire in std::mem::take(&mut self.unnamed) {
            let received = wire.receive();
            match wire.next_message() {
                Ok(Some(FromAgent::Hello(host))) => {
                    let mut waiting = self.waiting.iter_mut();
                    let Some(waiting) = waiting.find(|waiting| waiting.number == host) else {
                        continue;
                    };
                    let setup = ToAgent::Setup(Box::new(Setup {
                        ranks: waiting.ranks.clone(),
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

    /// The hosts; all are ready.
    fn finish(mut self) -> Result<Hosts, LaunchError> {
        let (mut hosts, mut boots) = (Vec::new(), Vec::new());
        let mut of_rank = vec![0; self.setup.size as usize];
        for waiting in std::mem::take(&mut self.waiting) {
            let (Some(wire), Some((config, boot))) = (waiting.wire, waiting.ready) else {
                return Err(JobError::Config("an agent was lost at the start".into()).into());
            };
            let launcher = wire.own_address();
            let launcher: IpAddr = launcher.map_err(|error| JobError::Config(error.to_string()))?;
            for rank in &waiting.ranks {
                of_rank[*rank as usize] = hosts.len();
            }
            hosts.push(Host {
                name: waiting.name,
                ranks: waiting.ranks,
                agent: AgentHandle::default(),
                wire: Some(wire),
                agent_process: waiting.agent_process,
                config: *config,
                launcher,
            });
            boots.push(boot);
        }
        share_cores(&mut hosts, &boots);
        Ok(Hosts { hosts, of_rank })
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
                })) => {
                    if let Some(why) = differing_addresses {
                        report_differing_addresses(&format!("host {}: ", self.name), &why);
                    }
                    self.ready = Some((config, boot));
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
        let process = self.agent_process.process.as_mut();
        match process.and_then(ServiceProcess::status) {
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

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.unnamed.clear();
        let give_up_at = Instant::now() + super::END_MAX;
        for waiting in &mut self.waiting {
            waiting.wire = None;
            if let Some(process) = &mut waiting.agent_process.process {
                process.close_stdin();
            }
        }
        for waiting in &mut self.waiting {
            if let Some(process) = &mut waiting.agent_process.process {
                process.end(give_up_at);
            }
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
