//! Jobs over several hosts, at the launcher: an agent on each host starts the ranks of the host
//! and forwards messages between them and the launcher (`crate::agent`). Docs:
//! `docs/guide/hosts.md`.
//!
//! | file | subject |
//! |---|---|
//! | `listing` | `--host`, `--hostfile`, which rank runs where; pure |
//! | `invitation` | the line with the launcher's addresses and the secret for an agent; pure |
//! | `slurm`, `flux` | the nodes of a Slurm allocation, the brokers of a Flux instance; pure |
//! | `short_list` | lists such as `a[1-3]`; pure |
//! | `message` | messages between launcher and agents; pure |
//! | `agent_process` | starting the agent on one host, by ssh, srun or flux |
//! | `callers` | a door for agents |
//! | `gathering` | starting agents, and waiting until all have called |
//! | `beginning` | the agents with which a job begins |
//! | `moving` | the ranks of a lost host start again on another one |
//! | `lease` | how long the ranks of a host may run without word from the launcher; pure |
//! | `tree` | the tree of connections, if there are many agents; pure |
//! | `numbered` | frames that arrive once and in order, over connections that break; pure |
//! | `passing` | messages through the tree |
//! | `far` | a rank's process on another host, as the launcher sees it |
//! | `reports` | messages of agents while the job runs |

mod agent_process;
pub mod beginning;
pub mod callers;
pub mod far;
pub mod flux;
mod gathering;
pub mod invitation;
pub mod lease;
pub mod listing;
pub mod message;
mod moving;
pub mod numbered;
mod passing;
mod reports;
mod short_list;
pub mod slurm;
pub mod tree;

use super::link::Link;
use super::loggers::remote::ServiceHost;
use super::output::Output;
use super::process::RankProcess;
use agent_process::AgentProcess;
use far::{AgentHandle, FarProcess};
use gathering::Placed;
use lease::Grant;
use listing::HostsSpec;
use message::{ServicesReady, Setup, ToAgent};
use moving::Move;
use numbered::Numbered;
use passing::{Branches, LostAgent, Way};
use refrain_job::JobError;
use refrain_job::config::JobConfig;
use refrain_wire::WireError;
use rustix::event::PollFlags;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Time for agents to end their ranks and themselves.
const END_MAX: Duration = Duration::from_secs(5);

/// One host with its agent.
#[derive(Debug)]
struct Host {
    name: String,
    placed: Placed,
    agent: AgentHandle,
    /// How the agent is reached.
    way: Way,
    /// What was sent and received through the tree; `None`: the agent has one connection of its own,
    /// and is lost with it.
    numbered: Option<Numbered>,
    agent_process: AgentProcess,
    /// The settings of the ranks of this host.
    config: JobConfig,
    /// The launcher's address, as the agent's host reaches it.
    launcher: IpAddr,
    /// The agent's address, as this host reaches it.
    address: IpAddr,
    /// Of a host of services.
    services: Option<ServicesReady>,
    /// Boot id of the host's kernel.
    boot: u128,
    /// The lease of the agent; `None`: the job has none.
    grant: Option<Grant>,
}

impl Host {
    fn is_lost(&self) -> bool {
        matches!(self.way, Way::Lost)
    }
}

/// The hosts of a job. Dropping it ends all their processes.
#[derive(Debug)]
pub struct Hosts {
    hosts: Vec<Host>,
    /// Index of each rank's host in `hosts`.
    of_rank: Vec<usize>,
    spec: HostsSpec,
    /// The job as agents get it.
    setup: Setup,
    /// When to look for silent agents.
    next_look: Instant,
    /// Lost hosts whose ranks are to start again on other hosts.
    moves: Vec<Move>,
    /// Hosts that get no more ranks, by their index in the list of hosts.
    lost_places: Vec<usize>,
    /// `None`: the launcher is connected with each agent. Else the first agents in `hosts` are those of
    /// the tree.
    branches: Option<Branches>,
    /// Agents that were found lost.
    lost: Vec<LostAgent>,
    /// By host, looks at which it was cut off, one after the other.
    cut_off_looks: Vec<u32>,
}

impl Hosts {
    /// Starts a life of a rank; the agent reports success or failure later.
    pub(super) fn start(
        &self,
        rank: u32,
        incarnation: u32,
        outputs: Vec<Output>,
    ) -> Result<RankProcess, String> {
        let host = &self.hosts[self.of_rank[rank as usize]];
        if !self.has_agent(rank as usize) {
            return Err(format!("the agent on {} is not connected", host.name));
        }
        let life = (rank, incarnation);
        let process = FarProcess::start(&host.agent, life);
        let link = Link::far(host.agent.clone(), life);
        Ok(RankProcess::far(process, link, outputs))
    }

    /// Whether the agent of a rank's host is not lost.
    pub(super) fn has_agent(&self, rank: usize) -> bool {
        !self.hosts[self.of_rank[rank]].is_lost()
    }

    /// The agent of a rank's host.
    pub(super) fn agent_of(&self, rank: u32) -> &AgentHandle {
        &self.hosts[self.of_rank[rank as usize]].agent
    }

    /// The fabric that all hosts have chosen.
    pub(super) fn fabric(&self) -> Result<String, JobError> {
        let with_ranks = self
            .hosts
            .iter()
            .filter(|host| !host.placed.is_for_services_only());
        let mut found = with_ranks.map(|host| (&host.name, &host.config.fabric));
        let (first, fabric) = found
            .next()
            .ok_or_else(|| JobError::Config("no host".into()))?;
        match found.find(|(_, other)| *other != fabric) {
            None => Ok(fabric.clone()),
            Some((name, other)) => Err(JobError::Config(format!(
                "--fabric: {first} chooses {fabric}, {name} {other}: name the provider with --fabric ofi:PROVIDER"
            ))),
        }
    }

    /// The hosts of services.
    pub(super) fn services(&self) -> Vec<ServiceHost> {
        let hosts = self.hosts.iter().enumerate();
        let of_services = hosts.filter_map(|(index, host)| {
            Some(ServiceHost {
                host: index,
                place: host.placed.place,
                name: host.name.clone(),
                agent: host.agent.clone(),
                address: host.address,
                launcher: host.launcher,
                ready: host.services.clone()?,
            })
        });
        of_services.collect()
    }

    /// The settings of a rank's host, and the launcher's address as that host reaches it.
    pub(super) fn config_of(&self, rank: usize) -> (&JobConfig, IpAddr) {
        let host = &self.hosts[self.of_rank[rank]];
        (&host.config, host.launcher)
    }

    /// The descriptors to poll, with the number of the host; `true`: the descriptor of the agent's
    /// process.
    pub(super) fn interests(
        &self,
    ) -> impl Iterator<Item = (usize, bool, BorrowedFd<'_>, PollFlags)> {
        self.hosts.iter().enumerate().flat_map(|(number, host)| {
            let wire = match &host.way {
                Way::Direct(wire) => Some((number, false, wire.as_fd(), wire.interest())),
                _ => None,
            };
            let ending = host.agent_process.end_descriptor();
            let ending = ending.map(|descriptor| (number, true, descriptor, PollFlags::IN));
            wire.into_iter().chain(ending)
        })
    }

    /// As [`flush`](Self::flush), and waits until the connections have taken all messages or the time
    /// is over.
    pub(super) fn flush_until(&mut self, give_up_at: Instant) -> Vec<LostAgent> {
        let mut lost = self.flush();
        for (number, host) in self.hosts.iter_mut().enumerate() {
            if let Way::Direct(wire) = &mut host.way {
                match wire.wait_flushed(Some(give_up_at)) {
                    Ok(()) | Err(WireError::Timeout) => {}
                    // Found again when the connection is read.
                    Err(_) if host.numbered.is_some() => {}
                    Err(error) => lost.push((number, error.to_string())),
                }
            }
        }
        lost
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let give_up_at = Instant::now() + END_MAX;
        // Agents below get it before those that pass it on. An agent that has no connection ends by
        // itself.
        self.tell_all(&ToAgent::End);
        let _ = self.flush_until(give_up_at);
        for (number, host) in self.hosts.iter_mut().enumerate() {
            // A host that was lost, and whose ranks have moved, is not waited for.
            let is_needed = self.of_rank.contains(&number) || host.services.is_some();
            let give_up_at = match is_needed && !host.is_lost() {
                true => give_up_at,
                false => Instant::now(),
            };
            host.agent_process.end(give_up_at);
            host.way = Way::Lost;
        }
    }
}
