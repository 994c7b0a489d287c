//! The agent's loop.

use super::error::AgentError;
use super::input::Input;
use super::ranks::{AgentRank, Shared};
use super::relay::Relay;
use super::services::{Services, cannot_start};
use super::uplink::Uplink;
use super::watch::Watch;
use crate::error::LaunchError;
use crate::hosts::lease::LeaseLength;
use crate::hosts::message::{
    Addressed, AgentDoor, FromAgent, Life, Recipient, Refusal, ServicesReady, ServicesSetup, Setup,
    ToAgent, of_frame,
};
use crate::hosts::tree::Branch;
use crate::leftovers;
use crate::polling;
use crate::spawn::HostPart;
use crate::start::{self, Prepared};
use bytes::Bytes;
use refrain_job::JobError;
use refrain_job::control::host::{HOST_VARIABLE, HostIdentity};
use refrain_job::control::message::{ToLauncher, ToRank};
use refrain_job::stderr::report;
use refrain_wire::{HELD_BACK_RETRY, WireError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Levels of a tree that look for another way to the launcher one after the other.
const LEVELS_MAX: u32 = 3;

/// Shortest time between two attempts to find another way to the launcher.
const DETOUR_PAUSE: Duration = Duration::from_millis(100);

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
    /// On a host with services.
    services: Option<Services>,
    /// The launcher has said that the job is over.
    is_over: bool,
    /// SIGUSR1 has come.
    asked: Arc<AtomicBool>,
    /// The agent's place in a tree.
    branch: Option<Branch>,
    /// Length of leases.
    lease: Option<LeaseLength>,
    /// `None`: there are no agents below this one.
    relay: Option<Relay>,
    /// Dropped last: the launcher takes its end as the end of all ranks.
    uplink: Uplink,
}

/// Serves the launcher until the job is over.
pub(super) fn serve(uplink: Uplink, host: u32, asked: Arc<AtomicBool>) -> Result<(), AgentError> {
    let mut agent = Agent {
        uplink,
        host,
        ranks: Vec::new(),
        shared: Shared::default(),
        prepared: None,
        services: None,
        watch: None,
        is_over: false,
        asked,
        branch: None,
        lease: None,
        relay: None,
    };
    loop {
        match agent.turn() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(AgentError::Lost(error)) if agent.uplink.can_call_again(&error) => {
                if !agent.uplink.call_again()? {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
    }
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
    /// Serves all that has come, and waits for more. `false`: the agent is to end.
    fn turn(&mut self) -> Result<bool, AgentError> {
        // Messages that arrived with the handshake are already in the buffer.
        if !self.hear()? {
            return Ok(false);
        }
        self.look_at_ranks()?;
        self.look_at_services()?;
        self.look_below();
        self.ask_lease()?;
        self.pass_signal_on()?;
        self.uplink
            .make_detour(self.impatience() == Some(Duration::ZERO));
        self.uplink.flush()?;
        let is_dismissed = self.wait()?;
        if is_dismissed {
            self.part();
        }
        Ok(!is_dismissed)
    }

    /// The standard input is closed: waits for the launcher's last message, which takes another way,
    /// or for the end of the connection.
    fn part(&mut self) {
        let give_up_at = Instant::now() + PARTING_MAX;
        let left = || give_up_at.saturating_duration_since(Instant::now());
        while matches!(self.hear(), Ok(true))
            && polling::is_ready_within(self.uplink.wire(), PollFlags::IN, left())
        {}
    }

    /// Sleeps until a descriptor is ready. `true`: the standard input is closed, the launcher is
    /// gone.
    fn wait(&mut self) -> Result<bool, AgentError> {
        let stdin = std::io::stdin();
        let wire = self.uplink.wire();
        let mut polled = vec![
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(wire.as_fd(), wire.interest()),
        ];
        let of_services = self.services.iter().flat_map(Services::ends);
        polled.extend(of_services.map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN)));
        let has_room = self.uplink.has_room();
        let detour = self.uplink.detour();
        polled.extend(detour.map(|it| PollFd::from_borrowed_fd(it.as_fd(), it.interest())));
        let first_below = polled.len();
        let mut children = Vec::new();
        for (child, descriptor, events) in self.relay.iter().flat_map(|it| it.interests(has_room)) {
            polled.push(PollFd::from_borrowed_fd(descriptor, events));
            children.push(child);
        }
        let besides = polled.len();
        let mut owners = Vec::new();
        if has_room {
            for (index, rank) in self.ranks.iter().enumerate() {
                for (descriptor, events) in rank.interests() {
                    polled.push(PollFd::from_borrowed_fd(descriptor, events));
                    owners.push(index);
                }
            }
        }
        let next_request = self.watch.as_ref().and_then(Watch::next_request);
        let next_look = self.services.as_ref().and_then(Services::next_look);
        let of_relay = self.relay.as_ref().and_then(Relay::deadline);
        let of_relay = of_relay.map(|at| at.saturating_duration_since(Instant::now()));
        let impatience = self.impatience().filter(|_| !self.uplink.has_detour());
        let impatience = impatience.map(|left| left.max(DETOUR_PAUSE));
        let is_held_back = self.ranks.iter().any(AgentRank::is_held_back);
        let timeout = (next_request.into_iter())
            .chain(next_look)
            .chain(of_relay)
            .chain(impatience)
            .chain(is_held_back.then_some(HELD_BACK_RETRY))
            .min();
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
        let of_below = polled[first_below..besides].iter().zip(children);
        let below = of_below.filter(|(polled, _)| is_ready(polled));
        let below: Vec<u32> = below.filter_map(|(_, child)| child).collect();
        if let Some(relay) = &mut self.relay {
            below.iter().for_each(|child| relay.is_ready(*child));
        }
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
        let received = self.uplink.receive();
        while let Some(message) = self.uplink.next_message::<ToAgent>()? {
            if let Some(word) = self.pass_on(message)?
                && !self.take_word(word)?
            {
                return Ok(false);
            }
        }
        received?;
        Ok(true)
    }

    /// The number of this agent in the tree.
    fn number(&self) -> Option<u32> {
        self.branch.map(|branch| branch.agent)
    }

    /// Passes a message to agents below. Returns the one for this agent, if there is one.
    fn pass_on(&mut self, message: ToAgent) -> Result<Option<ToAgent>, AgentError> {
        match message {
            ToAgent::Pass { to, frame } => return self.pass_frame_on(&to, frame),
            ToAgent::Resume { agent, received } if Some(agent) == self.number() => {
                self.uplink.resume(received);
            }
            ToAgent::Received { agent, received } if Some(agent) == self.number() => {
                self.uplink.have_arrived(received);
            }
            ToAgent::Resume { agent, .. } | ToAgent::Received { agent, .. } => {
                let relay = self.relay.iter_mut();
                relay.for_each(|relay| relay.pass_one(agent, &message));
            }
            ToAgent::Cut(agent) => self.relay.iter_mut().for_each(|relay| relay.cut(agent)),
            word => return Ok(Some(word)),
        }
        Ok(None)
    }

    fn pass_frame_on(
        &mut self,
        to: &[Addressed],
        frame: Bytes,
    ) -> Result<Option<ToAgent>, AgentError> {
        if let Some(relay) = &mut self.relay {
            relay.pass(to, &frame);
        }
        let own = to.iter().find(|to| Some(to.agent) == self.number());
        let own = own.filter(|own| {
            let uplink = &mut self.uplink;
            uplink.take(own.number, own.received, frame.len())
        });
        let word = own.map(|_| of_frame(frame)).transpose();
        Ok(word.map_err(WireError::from)?)
    }

    /// Passes messages of agents below on.
    fn look_below(&mut self) {
        let has_room = self.uplink.has_room();
        let up = self.relay.as_mut().map(|relay| relay.step(has_room));
        for message in up.into_iter().flatten() {
            self.uplink.pass(&message);
        }
    }

    /// Serves a message of the launcher. `false`: the job is over.
    fn take_word(&mut self, word: ToAgent) -> Result<bool, AgentError> {
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
                    self.uplink
                        .say(&FromAgent::Misunderstood { life, reason })?;
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
                    return Ok(true);
                };
                let started = services.start(number, folder, arguments, secret);
                if let Err(reason) = started {
                    self.uplink.say(&cannot_start(number, reason))?;
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
                let give_up_at = Instant::now() + PARTING_MAX;
                self.relay
                    .iter_mut()
                    .for_each(|it| it.flush_until(give_up_at));
                return Ok(false);
            }
            ToAgent::SayAll(message) => self.say_all(&message)?,
            ToAgent::Attach(door) => self.attach(&door)?,
            // Concern connections.
            ToAgent::Pass { .. }
            | ToAgent::Resume { .. }
            | ToAgent::Received { .. }
            | ToAgent::Cut(_) => {}
        }
        Ok(true)
    }

    fn say_all(&mut self, message: &ToRank) -> Result<(), AgentError> {
        let shared = &self.shared;
        let ranks = self.ranks.iter_mut().filter(|rank| !rank.has_ended());
        let said = ranks.filter_map(|rank| {
            let reason = rank.say(message, None, shared).err()?;
            Some(FromAgent::Misunderstood {
                life: rank.life,
                reason,
            })
        });
        let failed: Vec<FromAgent> = said.collect();
        for word in failed {
            self.uplink.say(&word)?;
        }
        Ok(())
    }

    /// Connects with the agent above this one.
    fn attach(&mut self, door: &AgentDoor) -> Result<(), AgentError> {
        let Some(agent) = self.number() else {
            return Ok(());
        };
        if let Err(why) = self.uplink.attach(agent, door) {
            self.uplink.say(&FromAgent::CannotAttach(why))?;
        }
        Ok(())
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

    /// Time until the agent looks for another way to the launcher; `None`: the launcher answers, or
    /// there is no other. Agents near the launcher do so first: what they find serves those below.
    fn impatience(&self) -> Option<Duration> {
        let (branch, lease) = (self.branch?, self.lease?);
        let asked = self.watch.as_ref()?.unanswered_for()?;
        let levels = branch
            .tree
            .depth(branch.agent)
            .checked_sub(1)
            .filter(|it| *it > 0)?;
        // A request leaves two turns of the lease.
        let patience = lease.turn() * (LEVELS_MAX + levels.min(LEVELS_MAX)) / (2 * LEVELS_MAX);
        Some(patience.saturating_sub(asked))
    }

    fn ask_lease(&mut self) -> Result<(), AgentError> {
        if self.watch.as_ref().is_some_and(Watch::ask) {
            self.uplink.say(&FromAgent::AskLease)?;
        }
        Ok(())
    }

    /// A signal that comes between this look and the wait is seen at the next request for a lease.
    fn pass_signal_on(&mut self) -> Result<(), AgentError> {
        if self.asked.swap(false, Ordering::Relaxed) {
            self.uplink.say(&FromAgent::Signalled)?;
        }
        Ok(())
    }

    fn look_at_ranks(&mut self) -> Result<(), AgentError> {
        if !self.uplink.has_room() {
            return Ok(());
        }
        for rank in self.ranks.iter_mut().filter(|rank| rank.is_ready) {
            for word in rank.look(&mut self.shared, self.watch.as_ref()) {
                self.uplink.say(&word)?;
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
        let Some(services) = &mut self.services else {
            return Ok(());
        };
        let failed = services.start_waiting();
        for word in services.take_ended().iter().chain(&failed) {
            self.uplink.say(word)?;
        }
        Ok(())
    }

    /// Prepares services.
    fn set_up_services(
        &mut self,
        setup: &Setup,
        asked: &ServicesSetup,
    ) -> Result<ServicesReady, JobError> {
        let (job, has_ranks) = ((setup.job, setup.size), !setup.ranks.is_empty());
        let services = Services::prepare(asked, &mut setup.config.clone(), job, has_ranks)?;
        Ok(self.services.insert(services).ready())
    }

    /// Prepares this host, or refuses with the reason.
    fn set_up(&mut self, mut setup: Setup) -> Result<(), AgentError> {
        (self.branch, self.lease) = (setup.branch, setup.lease);
        let relay = setup
            .branch
            .map(|branch| Relay::open(branch, self.uplink.secret()));
        let door = match relay.transpose() {
            Ok(relay) => relay.flatten().map(|(relay, door)| {
                self.relay = Some(relay);
                door
            }),
            Err(error) => {
                let what = "listening for other agents";
                let refusal = refused(&JobError::control(what, error).into());
                return Ok(self.uplink.say(&refusal)?);
            }
        };
        if let Some(folder) = &setup.folder {
            // If the folder is missing here, the ranks start in the folder of the ssh login.
            let _ = std::env::set_current_dir(folder);
        }
        // As the launcher on its own host.
        leftovers::remove(&leftovers::folders());
        let host = (self.host + 1).to_string();
        setup.environment.push((HOST_VARIABLE.into(), host.into()));
        let asked = setup.services.take();
        let services = asked.map(|asked| self.set_up_services(&setup, &asked));
        let services = match services.transpose() {
            Ok(services) => services,
            Err(error) => return Ok(self.uplink.say(&refused(&error.into()))?),
        };
        if services.is_some() && setup.ranks.is_empty() {
            self.watch = (setup.lease.map(Watch::begin).transpose()).map_err(AgentError::Lease)?;
            let answer = FromAgent::Ready {
                config: setup.config,
                boot: HostIdentity::of_this_process().map_or(0, HostIdentity::boot),
                differing_addresses: None,
                services,
                door,
            };
            return Ok(self.uplink.say(&answer)?);
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
                    services,
                    door,
                }
            }
            Err(error) => refused(&error),
        };
        Ok(self.uplink.say(&answer)?)
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
        Ok(self.uplink.say(&answer)?)
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
