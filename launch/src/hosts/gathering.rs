//! Starting the agents of a job, and waiting until all have called and are ready.

use super::calling::Caller;
use super::invitation::{Invitation, PURPOSE};
use super::message::{FromAgent, Refusal, Setup, ToAgent};
use super::telling::check_setup;
use super::wire::Wire;
use super::{Arm, Host, Hosts, HostsSpec, listing};
use crate::LaunchError;
use crate::addresses;
use crate::signals::Signals;
use crate::start::tell_differing_addresses;
use refrain_job::JobError;
use refrain_job::config::JobConfig;
use refrain_secure::{Door, Guest, Secret};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long agents may take to call and to say that they are ready.
const READY_MAX: Duration = Duration::from_secs(60);
/// A host whose agent is not ready.
struct Waiting {
    name: String,
    ranks: Vec<u32>,
    /// As in the list of hosts.
    number: u32,
    caller: Caller,
    wire: Option<Wire>,
    ready: Option<(Box<JobConfig>, u128)>,
}

/// All agents under way. Dropping it ends them.
struct Gathering<'a> {
    setup: &'a Setup,
    /// What may end the wait.
    signals: Option<&'a mut Signals>,
    door: Door,
    waiting: Vec<Waiting>,
    /// Proven, and have not said who they are.
    unnamed: Vec<Wire>,
}

/// Starts an agent on each host that is to have ranks; `setup` is what they are to
/// do but for their ranks.
///
/// # Errors
/// [`JobError::Config`] and [`LaunchError::Program`] when a host cannot be reached or its
/// agent cannot do it, with the host, [`LaunchError::Interrupted`] when a signal has come
/// that ends the job; nothing is left running then.
pub fn gather(
    spec: &HostsSpec,
    setup: &Setup,
    signals: Option<&mut Signals>,
) -> Result<Hosts, LaunchError> {
    let wrong = |error: listing::NotAHost| JobError::Config(error.to_string());
    let of_rank = listing::place(setup.size, &spec.hosts).map_err(wrong)?;
    check_setup(setup)?;
    let system = |error| JobError::Control {
        attempted: "listening for the agents of the job".into(),
        error,
    };
    let secret = Secret::random().map_err(system)?;
    let (door, port) = Door::open(secret.clone(), PURPOSE).map_err(system)?;
    let mut gathering = Gathering {
        setup,
        signals,
        door,
        waiting: Vec::new(),
        unnamed: Vec::new(),
    };
    let addresses = addresses::of_this_host();
    for (number, host) in spec.hosts.iter().enumerate() {
        let ranks = (0..setup.size).filter(|rank| of_rank[*rank as usize] == number);
        let ranks: Vec<u32> = ranks.collect();
        if ranks.is_empty() {
            continue;
        }
        let invitation = Invitation {
            job: setup.job,
            host: number as u32,
            secret: secret.clone(),
            port,
            addresses: addresses.clone(),
        };
        gathering.waiting.push(Waiting {
            name: host.name.clone(),
            ranks,
            number: number as u32,
            caller: Caller::start(spec, &host.name, &invitation)?,
            wire: None,
            ready: None,
        });
    }
    gathering.wait(Instant::now() + READY_MAX)?;
    gathering.finish()
}

/// Agents on one machine (containers, network namespaces) do not see each other's
/// ranks: where those run on the same cores, each is told of all.
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
            host.arm.push(ToAgent::Unpin);
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
            let guests = self.door.step(Instant::now()).into_iter();
            for (stream, session) in guests.filter_map(Guest::sealed) {
                // One that is gone again may call again.
                self.unnamed.extend(Wire::new(stream, session));
            }
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
            let pidfd = waiting.caller.pidfd.as_fd();
            polled.push(PollFd::from_borrowed_fd(pidfd, PollFlags::IN));
        }
        let longest = Timespec::try_from(longest).ok();
        // A failure is found by whatever is tried next.
        let _ = poll(&mut polled, longest.as_ref());
    }

    /// Which host each agent is on that has just called.
    fn learn_names(&mut self) {
        for mut wire in std::mem::take(&mut self.unnamed) {
            let received = wire.receive();
            match wire.next_message() {
                Ok(Some(FromAgent::Hello { host })) => {
                    let mut waiting = self.waiting.iter_mut();
                    let Some(waiting) = waiting.find(|waiting| waiting.number == host) else {
                        continue;
                    };
                    let setup = ToAgent::Setup(Box::new(Setup {
                        ranks: waiting.ranks.clone(),
                        ..self.setup.clone()
                    }));
                    // Called twice: by the first connection it is not heard.
                    if wire.say(&setup).and_then(|()| wire.flush()).is_ok() {
                        waiting.wire = Some(wire);
                    }
                }
                Ok(None) if received.is_ok() => self.unnamed.push(wire),
                // It may call again.
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

    /// The hosts, ready.
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
                arm: Arm::default(),
                wire: Some(wire),
                caller: waiting.caller,
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
    /// Hears what its agent says.
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
                        tell_differing_addresses(&format!("host {}: ", self.name), &why);
                    }
                    self.ready = Some((config, boot));
                }
                Ok(Some(FromAgent::Refused { refusal, reason })) => {
                    return Err(self.refused(refusal, &reason));
                }
                Ok(None) if received.is_ok() => {}
                // Why, is said by its end.
                _ => self.wire = None,
            }
        }
        // What it said before is heard first.
        match self.caller.child.try_wait() {
            Ok(Some(status)) => Err(self.caller.gone(&self.name, status)),
            _ => Ok(()),
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
            Refusal::System => JobError::Control {
                attempted: reason,
                error: io::Error::other("the agent failed"),
            }
            .into(),
        }
    }
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.unnamed.clear();
        let give_up_at = Instant::now() + super::END_MAX;
        for waiting in &mut self.waiting {
            waiting.wire = None;
            drop(waiting.caller.stdin.take());
        }
        for waiting in &mut self.waiting {
            waiting.caller.end(give_up_at);
        }
    }
}
