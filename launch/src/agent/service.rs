//! The agent's loop.

use super::input::Input;
use super::ranks::{AgentRank, Shared};
use super::services::Services;
use super::watch::Watch;
use crate::error::LaunchError;
use crate::hosts::invitation::NotAnInvitation;
use crate::hosts::message::{FromAgent, Life, Recipient, Refusal, ServicesSetup, Setup, ToAgent};
use crate::leftovers;
use crate::polling;
use crate::spawn::HostPart;
use crate::start::{self, Prepared};
use crate::verdict::End;
use refrain_job::JobError;
use refrain_job::control::host::{HOST_VARIABLE, HostIdentity};
use refrain_job::control::message::ToLauncher;
use refrain_job::stderr::report;
use refrain_pmi::PmiError;
use refrain_wire::{Connection, HELD_BACK_RETRY, WireError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Error of an agent that cannot serve its job.
#[derive(Debug, Error)]
pub enum AgentError {
    /// stdin has no invitation.
    #[error(transparent)]
    Invitation(#[from] NotAnInvitation),
    /// The server of the tasks cannot be used.
    #[error(transparent)]
    Server(#[from] PmiError),
    /// stdin cannot be read.
    #[error("stdin cannot be read: {0}")]
    Input(#[from] io::Error),
    /// The lease of the host cannot be watched.
    #[error("the clock of the lease cannot be used: {0}")]
    Lease(io::Error),
    /// The launcher cannot be reached.
    #[error("the launcher cannot be reached from this host: {0}")]
    Unreachable(String),
    /// The launcher has ended, or the connection was tampered with.
    #[error("the connection to the launcher is lost: {0}")]
    Lost(#[from] WireError),
}

/// With more unsent bytes than this for the launcher, the agent reads nothing from ranks.
const UNSENT_BYTES_MAX: usize = 4 << 20;

/// Time for the launcher's last message to arrive after the end of the standard input.
const PARTING_MAX: Duration = Duration::from_secs(2);

/// State of an agent.
struct Agent {
    /// Dropped first: ranks that are reaped must not be signalled. `None`: they need no lease.
    watch: Option<Watch>,
    host: u32,
    ranks: Vec<AgentRank>,
    shared: Shared,
    /// `None` before the setup. Dropped after the ranks, which use the files that it removes.
    prepared: Option<Prepared>,
    /// On a host of services.
    services: Option<Services>,
    /// The launcher has said that the job is over.
    is_over: bool,
    /// SIGUSR1 has come.
    asked: Arc<AtomicBool>,
    /// Dropped last: the launcher takes its end as the end of all ranks.
    wire: Connection,
}

/// Serves the launcher until the job is over.
pub(super) fn serve(wire: Connection, host: u32, asked: Arc<AtomicBool>) -> Result<(), AgentError> {
    let mut agent = Agent {
        wire,
        host,
        ranks: Vec::new(),
        shared: Shared::default(),
        prepared: None,
        services: None,
        watch: None,
        is_over: false,
        asked,
    };
    // Messages that arrived with the handshake are already in the buffer.
    while agent.hear()? {
        agent.look_at_ranks()?;
        agent.look_at_services()?;
        agent.ask_lease()?;
        agent.pass_signal_on()?;
        agent.wire.flush()?;
        if agent.wait()? {
            agent.part();
            break;
        }
    }
    Ok(())
}

impl Drop for Agent {
    fn drop(&mut self) {
        // All are killed before the first is waited for.
        self.ranks.iter().for_each(|rank| rank.child().kill_group());
        if let Some(prepared) = &mut self.prepared
            && !self.is_over
            && self.watch.is_some()
        {
            // The ranks may continue on another host.
            prepared.checkpoints.leave();
        }
    }
}

impl Agent {
    /// The standard input is closed: waits for the launcher's last message, which takes another way,
    /// or for the end of the connection.
    fn part(&mut self) {
        let give_up_at = Instant::now() + PARTING_MAX;
        let left = || give_up_at.saturating_duration_since(Instant::now());
        while matches!(self.hear(), Ok(true))
            && polling::is_ready_within(&self.wire, PollFlags::IN, left())
        {}
    }

    /// Sleeps until a descriptor is ready. `true`: the standard input is closed, the launcher is
    /// gone.
    fn wait(&mut self) -> Result<bool, AgentError> {
        let stdin = std::io::stdin();
        let mut polled = vec![
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(self.wire.as_fd(), self.wire.interest()),
        ];
        let of_services = self.services.iter().flat_map(Services::ends);
        polled.extend(of_services.map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN)));
        let besides = polled.len();
        let mut owners = Vec::new();
        if self.wire.unsent_bytes() < UNSENT_BYTES_MAX {
            for (index, rank) in self.ranks.iter().enumerate() {
                for (descriptor, events) in rank.interests() {
                    polled.push(PollFd::from_borrowed_fd(descriptor, events));
                    owners.push(index);
                }
            }
        }
        let next_request = self.watch.as_ref().and_then(Watch::next_request);
        let is_held_back = self.ranks.iter().any(AgentRank::is_held_back);
        let retry = is_held_back.then_some(HELD_BACK_RETRY);
        let timeout = next_request.into_iter().chain(retry).min();
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(WireError::from(error).into()),
        }
        let is_ready = |polled: &PollFd<'_>| !polled.revents().is_empty();
        let is_dismissed = is_ready(&polled[0]);
        let of_ranks = polled[besides..].iter().zip(owners);
        let ready = of_ranks.filter(|(polled, _)| is_ready(polled));
        let ready: Vec<usize> = ready.map(|(_, index)| index).collect();
        for index in ready {
            self.ranks[index].is_ready = true;
        }
        for rank in self.ranks.iter_mut() {
            rank.is_ready |= rank.is_held_back();
        }
        Ok(is_dismissed)
    }

    /// Serves the messages of the launcher. `false`: the job is over.
    fn hear(&mut self) -> Result<bool, AgentError> {
        let received = self.wire.receive();
        while let Some(word) = self.wire.next_message::<ToAgent>()? {
            match word {
                ToAgent::Setup(setup) => self.set_up(*setup)?,
                ToAgent::Unpin => {
                    if let Some(prepared) = &mut self.prepared {
                        prepared.starter.cores.clear();
                    }
                }
                ToAgent::Start(life) => self.start(life)?,
                ToAgent::Say {
                    life,
                    message,
                    memory,
                } => {
                    let living = self.ranks.iter_mut().find(|rank| rank.life == life);
                    let said = living.map(|rank| rank.say(&message, memory, &self.shared));
                    if let Some(Err(reason)) = said {
                        self.wire.say(&FromAgent::Misunderstood { life, reason })?;
                    }
                }
                ToAgent::Signal {
                    life,
                    recipient,
                    signal,
                } => self.signal(life, recipient, signal),
                ToAgent::LetGo(number) => self.shared.let_go(number),
                ToAgent::Took {
                    life,
                    stream,
                    bytes,
                } => {
                    let living = self.ranks.iter_mut().find(|rank| rank.life == life);
                    if let Some(rank) = living {
                        rank.took(stream, bytes);
                    }
                }
                ToAgent::Input { life, bytes } => {
                    let mut living = self.ranks.iter_mut().filter(|rank| rank.life == life);
                    if let Some(input) = living.next().and_then(|rank| rank.input.as_mut()) {
                        input.give(&bytes);
                    }
                }
                ToAgent::Lease => {
                    if let Some(watch) = &self.watch {
                        watch.granted().map_err(AgentError::Lease)?;
                    }
                }
                ToAgent::StartService {
                    number,
                    folder,
                    arguments,
                    secret,
                } => {
                    let Some(services) = &mut self.services else {
                        continue;
                    };
                    let started = services.start(number, folder, &arguments, &secret);
                    if let Err(reason) = started {
                        self.wire.say(&FromAgent::ServiceEnded {
                            number,
                            end: End::Exited(1),
                            reason: Some(reason),
                        })?;
                    }
                }
                ToAgent::SignalService { number, signal } => {
                    if let (Some(services), Some(signal)) =
                        (&self.services, Signal::from_named_raw(signal))
                    {
                        services.signal(number, signal);
                    }
                }
                ToAgent::End => {
                    self.is_over = true;
                    return Ok(false);
                }
            }
        }
        received?;
        Ok(true)
    }

    fn signal(&self, life: Life, recipient: Recipient, signal: i32) {
        let living = self.ranks.iter().find(|rank| rank.life == life);
        let (Some(rank), Some(signal)) = (living, Signal::from_named_raw(signal)) else {
            return;
        };
        if recipient != Recipient::Group || !rank.has_ended() {
            let signals = || rank.child().signal(recipient, signal);
            match &self.watch {
                Some(watch) if signal == Signal::CONT => watch.unless_stopped(signals),
                _ => signals(),
            }
        }
    }

    fn ask_lease(&mut self) -> Result<(), AgentError> {
        if self.watch.as_ref().is_some_and(Watch::ask) {
            self.wire.say(&FromAgent::AskLease)?;
        }
        Ok(())
    }

    /// A signal that comes between this look and the wait is seen at the next request for a lease.
    fn pass_signal_on(&mut self) -> Result<(), AgentError> {
        if self.asked.swap(false, Ordering::Relaxed) {
            self.wire.say(&FromAgent::Signalled)?;
        }
        Ok(())
    }

    fn look_at_ranks(&mut self) -> Result<(), AgentError> {
        if self.wire.unsent_bytes() >= UNSENT_BYTES_MAX {
            return Ok(());
        }
        for rank in self.ranks.iter_mut().filter(|rank| rank.is_ready) {
            for word in rank.look(&mut self.shared, self.watch.as_ref()) {
                self.wire.say(&word)?;
                if let (FromAgent::Heard { message, .. }, Some(prepared)) =
                    (&word, &mut self.prepared)
                    && let ToLauncher::Recovered(_) = **message
                {
                    let (rank, incarnation) = rank.life;
                    let lines = prepared.spilled.caught_up(rank as usize, incarnation);
                    lines.iter().for_each(report);
                }
            }
        }
        Ok(())
    }

    fn look_at_services(&mut self) -> Result<(), AgentError> {
        let ended = self.services.as_mut().map(Services::take_ended);
        for word in ended.into_iter().flatten() {
            self.wire.say(&word)?;
        }
        Ok(())
    }

    /// Prepares a host of services.
    fn set_up_services(&mut self, mut setup: Setup, asked: &ServicesSetup) -> FromAgent {
        let job = (setup.job, setup.size);
        match Services::prepare(asked, &mut setup.config, job) {
            Ok(services) => {
                let ready = services.ready();
                self.services = Some(services);
                FromAgent::Ready {
                    config: setup.config,
                    boot: HostIdentity::of_this_process().map_or(0, HostIdentity::boot),
                    differing_addresses: None,
                    services: Some(ready),
                }
            }
            Err(error) => refused(&error.into()),
        }
    }

    /// Prepares this host, or refuses with the reason.
    fn set_up(&mut self, mut setup: Setup) -> Result<(), AgentError> {
        if let Some(folder) = &setup.folder {
            // If the folder is missing here, the ranks start in the folder of the ssh login.
            let _ = std::env::set_current_dir(folder);
        }
        // As the launcher on its own host.
        leftovers::remove(&leftovers::folders());
        let host = (self.host + 1).to_string();
        setup.environment.push((HOST_VARIABLE.into(), host.into()));
        if let Some(asked) = setup.services.take() {
            self.watch = (setup.lease.map(Watch::begin).transpose()).map_err(AgentError::Lease)?;
            let answer = self.set_up_services(setup, &asked);
            return Ok(self.wire.say(&answer)?);
        }
        let part = HostPart {
            setup,
            piped: true,
            descriptors: Vec::new(),
        };
        let lease = part.setup.lease;
        let answer = match start::prepare(part, true) {
            Ok(prepared) => {
                self.watch = lease
                    .map(Watch::begin)
                    .transpose()
                    .map_err(AgentError::Lease)?;
                let prepared = self.prepared.insert(prepared);
                FromAgent::Ready {
                    config: prepared.starter.part.setup.config.clone(),
                    boot: HostIdentity::of_this_process().map_or(0, HostIdentity::boot),
                    differing_addresses: prepared.differing_addresses.clone(),
                    services: None,
                }
            }
            Err(error) => refused(&error),
        };
        Ok(self.wire.say(&answer)?)
    }

    fn start(&mut self, life: Life) -> Result<(), AgentError> {
        let Some(prepared) = &self.prepared else {
            return Ok(());
        };
        let (rank, _) = life;
        let start = || {
            let input = (rank == 0).then(Input::new).transpose()?;
            let reader = input.as_ref().map(Input::reader);
            let (child, link) = prepared.starter.start(rank, reader)?;
            let mut started = AgentRank::new(life, child, link)?;
            started.input = input;
            Ok(started)
        };
        let started = start();
        let answer = match started {
            Ok(started) => {
                let process = started.child().id();
                // The earlier life was fenced and is gone.
                self.ranks.retain(|other| other.life.0 != rank);
                if let Some(watch) = &self.watch {
                    watch.add(started.child().group());
                }
                self.ranks.push(started);
                FromAgent::Started { life, process }
            }
            Err(error) => FromAgent::CannotStart {
                life,
                reason: prepared.starter.cannot_start(rank, error).to_string(),
            },
        };
        Ok(self.wire.say(&answer)?)
    }
}

fn refused(error: &LaunchError) -> FromAgent {
    FromAgent::Refused {
        refusal: refusal(error),
        reason: error.to_string(),
    }
}

fn refusal(error: &LaunchError) -> Refusal {
    match error {
        LaunchError::Program { found: true, .. } => Refusal::ProgramUnusable,
        LaunchError::Program { found: false, .. } => Refusal::ProgramMissing,
        LaunchError::Job(JobError::Argument(_) | JobError::Config(_)) => Refusal::Config,
        _ => Refusal::System,
    }
}
