//! Jobs over several hosts, as the launcher has them: on each host an agent, which
//! starts the host's ranks and passes on what they and the launcher say to each
//! other (`launcher::agent`). Docs: `docs/guide/hosts.md`.
//!
//! | file | subject |
//! |---|---|
//! | `listing` | `--host`, `--hostfile`, which rank runs where; pure |
//! | `invitation` | the line that tells an agent whom to call, and how it proves itself; pure |
//! | `message` | what launcher and agents say; framing; pure |
//! | `telling` | whether and how hosts can be told what they are to do; pure |
//! | `wire` | messages over a socket, by `refrain_secure` |
//! | `calling` | starting the agent on one host, by ssh |
//! | `gathering` | starting all agents, and waiting until all have called |
//! | `far` | a rank's process on another host, as the launcher has it |
//! | `hearing` | what agents say while the job runs |

mod calling;
mod far;
mod gathering;
mod hearing;
pub mod invitation;
mod listing;
pub mod message;
mod telling;
pub mod wire;

pub use far::{Arm, FarProcess};
pub(super) use gathering::gather;
pub use listing::{HostSlots, NotAHost, parse_hosts, read_hostfile};

use super::output::Output;
use super::process::RankProcess;
use calling::Caller;
use message::ToAgent;
use refrain_job::JobError;
use refrain_job::config::JobConfig;
use rustix::event::PollFlags;
use std::ffi::OsString;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::Wire;

/// How long agents may take to end their ranks and themselves.
const END_MAX: Duration = Duration::from_secs(5);

/// Where the ranks of a job are to run.
#[derive(Clone, Debug, Default)]
pub struct HostsSpec {
    /// In the order in which ranks are placed. Empty: on this host alone, without
    /// agents.
    pub hosts: Vec<HostSlots>,
    /// What starts a command on a host: this, then the host's name, then the
    /// command. Empty: `ssh -oBatchMode=yes`.
    pub ssh: Vec<OsString>,
    /// The program `refrain` on the hosts. `None`: the path that it has here.
    pub refrain: Option<PathBuf>,
}

/// One host with its agent.
#[derive(Debug)]
struct Host {
    name: String,
    ranks: Vec<u32>,
    arm: Arm,
    /// `None`: the agent is lost.
    wire: Option<Wire>,
    caller: Caller,
    /// The settings of its ranks.
    config: JobConfig,
    /// The address of this host, as the agent's host reaches it.
    launcher: IpAddr,
}

/// The hosts of a job. Dropping it ends all that runs on them.
#[derive(Debug)]
pub struct Hosts {
    hosts: Vec<Host>,
    /// By rank.
    of_rank: Vec<usize>,
}

impl Hosts {
    /// Starts a life of a rank; whether that succeeds is told later.
    pub(super) fn start(
        &self,
        rank: u32,
        incarnation: u32,
        outputs: Vec<Output>,
    ) -> Result<RankProcess, String> {
        let host = &self.hosts[self.of_rank[rank as usize]];
        if host.wire.is_none() {
            return Err(format!("the agent on {} is gone", host.name));
        }
        Ok(far::start(&host.arm, (rank, incarnation), outputs))
    }

    /// The fabric that all hosts have found.
    pub(super) fn fabric(&self) -> Result<String, JobError> {
        let mut found = self
            .hosts
            .iter()
            .map(|host| (&host.name, &host.config.fabric));
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

    /// The settings of a rank's host, and where it finds the launcher's.
    pub(super) fn config_of(&self, rank: usize) -> (&JobConfig, IpAddr) {
        let host = &self.hosts[self.of_rank[rank]];
        (&host.config, host.launcher)
    }

    /// What to poll, with the number of the host; `true`: its agent's caller.
    pub(super) fn interests(
        &self,
    ) -> impl Iterator<Item = (usize, bool, BorrowedFd<'_>, PollFlags)> {
        self.hosts.iter().enumerate().flat_map(|(number, host)| {
            let wire = host.wire.as_ref();
            let wire = wire.map(|wire| (number, false, wire.as_fd(), wire.interest()));
            let caller = (!host.caller.has_ended).then(|| {
                let pidfd = host.caller.pidfd.as_fd();
                (number, true, pidfd, PollFlags::IN)
            });
            wire.into_iter().chain(caller)
        })
    }

    /// Sends what the agents take of what is to be said. Returns those that are
    /// lost, with the reason.
    pub(super) fn flush(&mut self) -> Vec<(usize, String)> {
        let mut lost = Vec::new();
        for (number, host) in self.hosts.iter_mut().enumerate() {
            let messages = host.arm.take();
            let Some(wire) = &mut host.wire else { continue };
            let said = messages.iter().try_for_each(|message| wire.say(message));
            if let Err(error) = said.and_then(|()| wire.flush()) {
                lost.push((number, error.to_string()));
            }
        }
        lost
    }

    /// The same, and waits until they have taken all, or the time is over.
    pub(super) fn flush_until(&mut self, give_up_at: Instant) -> Vec<(usize, String)> {
        let mut lost = self.flush();
        for (number, host) in self.hosts.iter_mut().enumerate() {
            while let Some(wire) = &mut host.wire
                && wire.is_sending()
                && wire.wait_to_send(give_up_at).is_ok()
            {
                if let Err(error) = wire.flush() {
                    lost.push((number, error.to_string()));
                    break;
                }
            }
        }
        lost
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let give_up_at = Instant::now() + END_MAX;
        for host in &self.hosts {
            host.arm.push(ToAgent::End);
        }
        // One that is lost ends by itself.
        let _ = self.flush_until(give_up_at);
        for host in &mut self.hosts {
            host.caller.end(give_up_at);
            host.wire = None;
        }
    }
}

/// What cannot be over several hosts yet.
pub(super) fn check(spec: &super::JobSpec) -> Result<(), JobError> {
    let config = &spec.config;
    let refused = [
        (config.events.gate_output, "--gate-output"),
        (spec.faults.suspect_after.is_some(), "--suspect-ranks-after"),
        (
            !spec.descriptors.is_empty(),
            "a job with descriptors of its own",
        ),
        (config.fabric == "shm", "--fabric shm"),
        (config.events.way == "shm", "--event-way shm"),
        (
            spec.output == super::Output::Inherited,
            "output that is not passed on by the launcher",
        ),
    ];
    match refused.iter().find(|(is_asked, _)| *is_asked) {
        Some((_, what)) => Err(JobError::Config(format!(
            "{what} cannot be combined with --host and --hostfile: use one host, or leave it out"
        ))),
        None => Ok(()),
    }
}
