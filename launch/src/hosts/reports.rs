//! Messages of agents while the job runs.

use super::Hosts;
use super::far::RemoteEnd;
use super::message::{FromAgent, Life, ToAgent};
use super::passing::Way;
use crate::Job;
use crate::link::Memory;
use crate::outcome::HOST_LOST;
use crate::process::RankProcess;
use crate::serve::sink_of;
use crate::start::Placement;
use crate::verdict::End;
use signal_hook::consts::SIGKILL;
use signal_hook::consts::SIGUSR1;
use std::time::Instant;

impl Job {
    pub(super) fn hosts(&mut self) -> Option<&mut Hosts> {
        match &mut self.placement {
            Placement::Local(_) => None,
            Placement::Remote(hosts) => Some(hosts),
        }
    }

    /// Serves the messages of an agent; ends of ranks are handled later, from
    /// [`reported_ends`](Self::reported_ends).
    pub(crate) fn hear_agent(&mut self, number: usize) {
        let Some(hosts) = self.hosts() else { return };
        let (heard, lost) = hosts.hear(number);
        for (number, message) in heard {
            self.take_word(number, message);
        }
        for (number, why) in lost {
            self.lose_host(number, &why);
        }
    }

    /// The process that started an agent has ended.
    pub(crate) fn agent_ended(&mut self, number: usize) {
        // The agent may have sent the reason.
        self.hear_agent(number);
        let Some(hosts) = self.hosts() else { return };
        let agent = &mut hosts.hosts[number].agent_process;
        agent.has_ended = true;
        let status = agent.status();
        let how = status.map_or(String::new(), |status| format!(" ({status})"));
        self.lose_host(number, &format!("it has ended{how}"));
    }

    /// Sends the messages to all agents. `true`: an agent was lost, which has to be handled at
    /// once.
    pub(crate) fn flush_hosts(&mut self) -> bool {
        let Some(hosts) = self.hosts() else {
            return false;
        };
        let lost = hosts.flush();
        let has_lost = !lost.is_empty();
        for (number, why) in lost {
            self.lose_host(number, &why);
        }
        has_lost
    }

    /// As [`flush_hosts`](Self::flush_hosts), and waits until all messages are sent or the time is
    /// over.
    pub(crate) fn flush_hosts_until(&mut self, give_up_at: Instant) {
        let Some(hosts) = self.hosts() else { return };
        for (number, why) in hosts.flush_until(give_up_at) {
            self.lose_host(number, &why);
        }
    }

    fn take_word(&mut self, number: usize, message: FromAgent) {
        match message {
            FromAgent::Started { life, process } => {
                if let Some(far) = self.living(life).and_then(|rank| self.ranks[rank].as_far()) {
                    far.id = process;
                }
            }
            FromAgent::CannotStart { life, reason } => {
                if let Some(rank) = self.living(life) {
                    self.fail(1, format!("rank {rank} cannot be started: {reason}"));
                    self.mark_ended(rank);
                }
            }
            FromAgent::Heard {
                life,
                message,
                memory,
            } => {
                let agent = self.hosts().map(|hosts| hosts.hosts[number].agent.clone());
                // Memory of an ended life, too: dropping it releases the memory at the agent.
                let memory = memory
                    .zip(agent)
                    .map(|(memory, agent)| Memory::there(&agent, memory));
                if let Some(rank) = self.living(life) {
                    self.ranks[rank].link.pass_on(*message, memory);
                    self.hear(rank);
                }
            }
            FromAgent::Misunderstood { life, reason } => {
                if let Some(rank) = self.living(life) {
                    self.fail(1, format!("rank {rank} sent an invalid message: {reason}"));
                }
            }
            FromAgent::Output {
                life,
                stream,
                bytes,
            } => {
                if let Some(rank) = self.living(life) {
                    let mut outputs = self.ranks[rank].outputs.iter_mut();
                    if let Some(output) = outputs.find(|output| output.stream == stream) {
                        output.pass_on(&bytes);
                    }
                }
            }
            FromAgent::Ended {
                life,
                end,
                true_end,
                unfenced,
            } => {
                if let Some(far) = self.living(life).and_then(|rank| self.ranks[rank].as_far()) {
                    far.end.get_or_insert(RemoteEnd {
                        end,
                        true_end,
                        unfenced,
                    });
                }
            }
            FromAgent::ServiceEnded {
                number,
                end,
                reason,
            } => self.service_ended(number, end, reason.as_deref()),
            FromAgent::Signalled if self.job_dir.is_some() => {
                self.begin_whole_checkpoint(SIGUSR1, false);
            }
            // Signals for ranks come to the launcher.
            FromAgent::Signalled => {}
            FromAgent::InputLeft { life, bytes } => {
                if self.living(life).is_some() {
                    let line = self.standard_input.was_read_far(bytes);
                    self.say(line);
                }
            }
            FromAgent::AskLease => {
                if let Some(hosts) = self.hosts() {
                    hosts.grant(number);
                }
            }
            FromAgent::Hello(_)
            | FromAgent::Ready { .. }
            | FromAgent::Refused { .. }
            | FromAgent::CannotAttach(_)
            | FromAgent::Attach(_)
            | FromAgent::Detached(_)
            | FromAgent::Pass { .. }
            | FromAgent::Resume { .. }
            | FromAgent::Received { .. } => {
                self.lose_host(number, "it sent a message that belongs to the start");
            }
        }
    }

    /// The rank of this life, if the life is the rank's current one.
    fn living(&mut self, life: Life) -> Option<usize> {
        let rank = life.0 as usize;
        let process = self.ranks.get_mut(rank)?;
        let is_this = process.as_far().is_some_and(|far| far.life == life);
        is_this.then_some(rank)
    }

    fn mark_ended(&mut self, rank: usize) {
        let killed = End::Killed(SIGKILL);
        // The job may have started no rank yet, or be over.
        if let Some(far) = self.ranks.get_mut(rank).and_then(RankProcess::as_far) {
            far.end.get_or_insert(RemoteEnd {
                end: killed,
                true_end: killed,
                unfenced: None,
            });
        }
    }

    /// The ranks of a lost host count as ended.
    pub(super) fn mark_ranks_ended(&mut self, number: usize) {
        let Some(hosts) = self.hosts() else { return };
        for rank in hosts.hosts[number].placed.ranks.clone() {
            self.mark_ended(rank as usize);
        }
    }

    /// An agent is lost: its ranks end with it, which cannot be seen from here. They start again on
    /// another host when they run no more for sure; if they cannot, the job ends. FENCE-2
    pub(super) fn lose_host(&mut self, number: usize, why: &str) {
        let Some(hosts) = self.hosts() else { return };
        if hosts.hosts[number].is_lost() {
            return;
        }
        hosts.cut(number);
        let host = &mut hosts.hosts[number];
        (host.way, host.numbered) = (Way::Lost, None);
        host.agent_process.close_stdin();
        let (name, ranks) = (host.name.clone(), host.placed.ranks.clone());
        let list: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        let lost = format!("host {name}: the connection to the agent is lost: {why}");
        if host.services.is_some() {
            self.lose_services(number, &lost);
            if ranks.is_empty() || !self.is_running() {
                return self.mark_ranks_ended(number);
            }
        }
        let list = list.join(", ");
        let is_over = |rank: &u32| {
            let rank = *rank as usize;
            let process = self.ranks.get(rank);
            process.is_some_and(|it| it.end.is_some()) && !self.lives[rank].is_awaited()
        };
        if ranks.iter().all(is_over) {
            return self.say(Some(format!("{lost}. Its ranks ({list}) had ended")));
        }
        let can_move = self.is_running()
            && self.restarts_ranks()
            && !self.past_last_fence
            && self.unprotected_since.is_none();
        let to = self.hosts().filter(|_| can_move);
        if let Some(to) = to.and_then(|hosts| hosts.begin_move(number)) {
            return self.say(Some(format!(
                "{lost}. Its ranks ({list}) start again on {to} when they have ended for sure"
            )));
        }
        let advice = match can_move {
            true => ": no host is left; --spare-nodes keeps some",
            false => "",
        };
        self.fail(
            HOST_LOST,
            format!(
                "{lost}. Its ranks ({list}) are lost and cannot be restarted elsewhere{advice}"
            ),
        );
        self.mark_ranks_ended(number);
    }

    /// A host with services is lost. They start on no other one: their files are lost, or clients do not
    /// know another address.
    fn lose_services(&mut self, number: usize, lost: &str) {
        if !self.is_running() {
            return;
        }
        let servers = self.checkpoint_servers.lose_host(number);
        match servers.and_then(|()| self.loggers.lose_host(number)) {
            Ok(lines) => {
                for line in lines {
                    self.say(Some(format!("{lost}: {line}")));
                }
            }
            Err(why) => self.fail(HOST_LOST, format!("{lost}: {why}")),
        }
    }

    /// A service on another host has ended.
    fn service_ended(&mut self, number: u32, end: End, reason: Option<&str>) {
        if !self.is_running() {
            return;
        }
        let of_server = self.checkpoint_servers.ended(number, end, reason);
        let judged = match of_server {
            Some(judged) => judged.map(Some),
            None => {
                let of_logger = self.loggers.ended_there(number as usize, end, reason);
                of_logger.unwrap_or(Ok(None))
            }
        };
        match judged {
            Ok(line) => self.say(line),
            Err(failure) => self.fail(1, failure),
        }
    }

    /// Takes the output that agents have sent, as far as the sinks have room, and acknowledges it.
    pub(crate) fn take_relayed(&mut self) {
        for (rank, process) in self.ranks.iter_mut().enumerate() {
            for output in &mut process.outputs {
                let sink = sink_of(&mut self.out, &mut self.err, output.stream);
                while output.has_relayed() && !sink.is_full() {
                    output.read(process.gate.as_ref(), sink.buffer());
                }
                let bytes = output.take_read() as u32;
                if let (1.., Placement::Remote(hosts)) = (bytes, &self.placement) {
                    hosts.hosts[hosts.of_rank[rank]].agent.push(ToAgent::Took {
                        life: (rank as u32, self.lives[rank].incarnation),
                        stream: output.stream,
                        bytes,
                    });
                }
            }
        }
    }

    /// Whether a sink has room for output that agents have sent: no descriptor becomes ready for
    /// that.
    pub(crate) fn can_take_relayed(&mut self) -> bool {
        let mut outputs = self.ranks.iter().flat_map(|process| &process.outputs);
        outputs.any(|output| {
            let sink = sink_of(&mut self.out, &mut self.err, output.stream);
            output.has_relayed() && !sink.is_full()
        })
    }

    /// Ranks of other hosts whose end was reported and is not handled yet.
    pub(crate) fn reported_ends(&mut self) -> Vec<usize> {
        let ranks = self.ranks.iter_mut().enumerate();
        let told = ranks.filter_map(|(rank, process)| {
            let is_reported = process.as_far().is_some_and(|far| far.end.is_some());
            (is_reported && process.end.is_none()).then_some(rank)
        });
        told.collect()
    }
}
