//! Messages of ranks over their control sockets, and their answers.

use super::Job;
use super::hosts::message::ToAgent;
use super::key_values::{Entry, Fencing};
use super::link::Memory;
use super::recoveries;
use super::replacement::address_key;
use super::start::Placement;
use super::verdict::Membership;
use refrain_job::control::host;
use refrain_job::control::message::{RecoveryFigures, ToLauncher, ToRank};
use refrain_job::output_gate::{self, OutputGate};
use refrain_ring::{Incarnation, Rank};
use std::time::Instant;

impl Job {
    /// Serves all messages that `rank` has sent.
    pub(super) fn hear(&mut self, rank: usize) {
        loop {
            match self.ranks[rank].link.receive() {
                Ok(Some((message, memory))) => self.request(rank, message, memory),
                Ok(None) => return,
                Err(error) => {
                    self.ranks[rank].link.close();
                    return self.fail(1, format!("rank {rank} sent an invalid message: {error}"));
                }
            }
        }
    }

    fn request(&mut self, rank: usize, message: ToLauncher, memory: Option<Memory>) {
        if !self.is_running() {
            // A rank that was asked to stop gets no other answer.
            if message == ToLauncher::Finalize {
                self.ranks[rank].membership = Membership::Left;
            }
            return;
        }
        let allowed = self.check_turn(rank, &message);
        if let Err(wrong) = allowed.and_then(|()| self.serve_request(rank, message, memory)) {
            self.fail(1, format!("rank {rank} {wrong}"));
        }
    }

    /// Refuses messages that are not allowed in the rank's present state.
    fn check_turn(&self, rank: usize, message: &ToLauncher) -> Result<(), String> {
        match (message, self.ranks[rank].membership) {
            (ToLauncher::Hello(_), Membership::Stranger) => Ok(()),
            (ToLauncher::Hello(process), _) => Err(format!(
                "joined the job a second time (process {process}): a wrapper may start one program that joins, once"
            )),
            (_, Membership::Stranger) => Err("sent a message before it joined the job".into()),
            (_, Membership::Member) => Ok(()),
            // When the last fence has opened, a rank has left, but it sends Finalize later. It may
            // have been asked for its status before, and may not know yet that all ranks have
            // passed the fence.
            (
                ToLauncher::Abort(_)
                | ToLauncher::Finalize
                | ToLauncher::Statistics(_)
                | ToLauncher::Status(_)
                | ToLauncher::WantCheckpoint(_)
                | ToLauncher::Unprotected(_)
                | ToLauncher::Suspect { .. }
                | ToLauncher::Meet(_)
                | ToLauncher::Taking(_)
                | ToLauncher::WantRound
                | ToLauncher::Keeping(_)
                | ToLauncher::CannotKeep(_)
                | ToLauncher::Held { .. }
                | ToLauncher::Restored { .. }
                | ToLauncher::Stable { .. },
                Membership::Left,
            ) => Ok(()),
            (_, Membership::Left) => Err("sent a message after it has left the job".into()),
        }
    }

    fn serve_request(
        &mut self,
        rank: usize,
        message: ToLauncher,
        memory: Option<Memory>,
    ) -> Result<(), String> {
        match message {
            ToLauncher::Hello(process) => {
                self.ranks[rank].join(process);
                self.recoveries.joined(rank, Instant::now());
                self.answer(rank, &self.welcome(rank), None)?;
                self.introduce_joined(rank);
            }
            ToLauncher::Put {
                key, memory: true, ..
            } if key == output_gate::key(rank as u32) => self.open_gate(rank, memory)?,
            ToLauncher::Put { key, value, .. } => self.publish(rank, &key, value, memory)?,
            ToLauncher::Get(key) => {
                if self.key_values.get(rank, &key)?.is_some() {
                    self.answer_value(rank, &key)?;
                }
            }
            ToLauncher::Host(host) => {
                let served = self.key_values.host(rank, host)?;
                self.answer_hosts(&served)?;
            }
            ToLauncher::Meet(other) => self.will_introduce(rank, other)?,
            ToLauncher::Fence { generation, last } => self.reach_fence(rank, generation, last)?,
            ToLauncher::Statistics(figures) => {
                self.statistics.resize(self.ranks.len(), None);
                self.statistics[rank] = Some(*figures);
            }
            ToLauncher::Beginning { checkpoint, fences } => {
                self.begin_life(rank, checkpoint)?;
                self.answer(rank, &ToRank::Marked(checkpoint), None)?;
                // JOB-3
                for (waiter, fence) in self.key_values.have_passed(fences) {
                    self.answer(waiter, &ToRank::FenceDone(fence), None)?;
                }
            }
            ToLauncher::Mark(checkpoint) => {
                self.mark_output(rank, checkpoint);
                match self.job_dir {
                    Some(_) => self.marked.push((rank, checkpoint)),
                    None => self.answer(rank, &ToRank::Marked(checkpoint), None)?,
                }
            }
            ToLauncher::WantRound => {
                let orders =
                    self.rounds
                        .wanted(Rank(rank as u32), self.schedule.now(), &self.runs());
                self.tell_rounds(&orders);
            }
            ToLauncher::Keeping(round) => {
                let orders = self.rounds.keeping(Rank(rank as u32), round);
                self.tell_rounds(&orders);
            }
            ToLauncher::CannotKeep(round) => {
                let orders = self
                    .rounds
                    .cannot_keep(Rank(rank as u32), round, self.schedule.now());
                self.tell_rounds(&orders);
            }
            ToLauncher::Taking(_) => {
                let now = self.schedule.now();
                self.schedule.scheduler.begun(rank, now);
            }
            ToLauncher::HeedsRequests => self.lives[rank].heeds_requests = true,
            ToLauncher::Status(figures) => self.schedule.scheduler.answered(rank, *figures),
            ToLauncher::WantCheckpoint(of) => self.schedule.scheduler.request(of as usize),
            ToLauncher::Unprotected(why) => self.go_on_unprotected(rank, &why),
            ToLauncher::Stable {
                checkpoint,
                bytes,
                log_bytes,
            } => {
                let now = self.schedule.now();
                let scheduler = &mut self.schedule.scheduler;
                scheduler.stable(rank, (bytes, log_bytes), now);
                self.lives[rank].checkpoint = Some((checkpoint, Instant::now()));
                self.note_stable(rank);
                match self.rounds.goes_back_to(Rank(rank as u32)) {
                    None => self.forget_output_before(rank, checkpoint),
                    Some(_) => {
                        let orders = self.rounds.stable(Rank(rank as u32), checkpoint);
                        self.tell_rounds(&orders);
                    }
                }
            }
            ToLauncher::Suspect {
                rank: suspect,
                incarnation,
            } => self.suspect(suspect as usize, incarnation, rank),
            ToLauncher::Replaying(figures) => self.lives[rank].replay = Some(figures),
            ToLauncher::Recovered(figures) => self.note_recovery(rank, *figures),
            ToLauncher::CollectEvents => {
                self.losses.asked(Rank(rank as u32));
                self.give_events();
            }
            ToLauncher::Held {
                of,
                incarnation,
                part,
                is_last,
            } => {
                let of = (Rank(of), Incarnation(incarnation));
                let holder = Rank(rank as u32);
                self.losses.held(holder, of, &part, is_last);
                self.give_events();
            }
            ToLauncher::Joined => {
                self.losses.joined(Rank(rank as u32));
                self.answer(rank, &ToRank::JoinedNoted, None)?;
            }
            ToLauncher::Restored {
                rank: of,
                incarnation,
            } => {
                let of = (Rank(of), Incarnation(incarnation));
                self.losses.restored(Rank(rank as u32), of);
            }
            ToLauncher::Finalize => self.ranks[rank].membership = Membership::Left,
            ToLauncher::Abort(message) => self.abort(rank, &message),
        }
        Ok(())
    }

    fn open_gate(&mut self, rank: usize, memory: Option<Memory>) -> Result<(), String> {
        let Some(Memory::Here(file)) = memory else {
            return Err("published an output gate without a page, or from another host".into());
        };
        let gate = OutputGate::open(&file);
        let wrong = |error| format!("published an output gate that cannot be used: {error}");
        self.ranks[rank].gate = Some(gate.map_err(wrong)?);
        Ok(())
    }

    fn note_recovery(&mut self, rank: usize, figures: RecoveryFigures) {
        self.lives[rank].caught_up();
        let incarnation = self.lives[rank].incarnation;
        // After the last fence only the files are left of the messages of ranks.
        if !self.past_last_fence {
            for line in self.spilled.caught_up(rank, incarnation) {
                self.say(Some(line));
            }
        }
        let is_new = !self.recoveries.has_differed(rank);
        let difference = recoveries::explain(rank, &figures).filter(|_| is_new);
        let line = self.recoveries.finished(rank, figures, Instant::now());
        self.say_of(rank, line);
        self.say(difference);
    }

    fn welcome(&self, rank: usize) -> ToRank {
        let mut config = Box::new(self.config.clone());
        if let Placement::Remote(hosts) = &self.placement {
            let (of_host, launcher) = hosts.config_of(rank);
            *config = of_host.clone();
            config.events = self.config.events.clone();
            if let Some(shards) = self.loggers.shards_at(rank, launcher) {
                config.events.shards = shards;
            }
            if let Some(place) = self.checkpoint_servers.place_of(rank, launcher) {
                config.recovery.checkpoint_dir = Some(place);
            }
        }
        config.recovery.kill_at_clock = self.lives[rank].kill_at_clock;
        ToRank::Welcome {
            job: self.id,
            rank: rank as u32,
            size: self.ranks.len() as u32,
            incarnation: self.lives[rank].incarnation,
            config,
            begins_with: self.rounds.goes_back_to(Rank(rank as u32)),
            met: self.introductions.asked(rank),
            alone: self.past_last_fence,
        }
    }

    fn publish(
        &mut self,
        rank: usize,
        key: &str,
        value: Vec<u8>,
        memory: Option<Memory>,
    ) -> Result<(), String> {
        let waiters = self.key_values.put(key, Entry { value, memory });
        if key == address_key(rank) {
            // Before the value is sent: its readers then know which incarnation it is of.
            self.introduce_address(rank);
        }
        waiters
            .into_iter()
            .try_for_each(|waiter| self.answer_value(waiter, key))
    }

    fn reach_fence(&mut self, rank: usize, generation: u64, last: bool) -> Result<(), String> {
        let done = ToRank::FenceDone(generation);
        // A killed rank may not have ended yet.
        let (ranks, all) = (&self.ranks, &self.lives);
        let lives = |rank: usize| !ranks[rank].has_ended() && all[rank].shot.is_none();
        match self.key_values.fence(rank, generation, last, lives)? {
            Fencing::Waits => Ok(()),
            Fencing::HasPassed if last && self.past_last_fence => {
                self.leave_with_set(rank, generation)
            }
            Fencing::HasPassed => {
                if last {
                    self.ranks[rank].membership = Membership::Left;
                }
                self.answer(rank, &done, None)
            }
            Fencing::Opens { leaving } => {
                // After the last fence ranks do not meet.
                self.introduce_asked();
                // With events at ranks the first fence is the end of joining.
                self.losses.begin();
                self.past_last_fence = leaving.len() == self.ranks.len();
                for rank in leaving {
                    self.ranks[rank].membership = Membership::Left;
                }
                self.answer_all(&done)
            }
        }
    }

    fn answer_hosts(&mut self, ranks: &[usize]) -> Result<(), String> {
        if ranks.is_empty() {
            return Ok(());
        }
        let (hosts, rows) = host::rows_of(&self.key_values.hosts());
        let hosts = ToRank::Hosts {
            hosts: hosts.into_iter().map(Vec::from).collect(),
            rows,
        };
        if ranks.len() == self.ranks.len() {
            return self.answer_all(&hosts);
        }
        let mut ranks = ranks.iter();
        ranks.try_for_each(|rank| self.answer(*rank, &hosts, None))
    }

    /// Sends a message without memory to all ranks.
    fn answer_all(&mut self, answer: &ToRank) -> Result<(), String> {
        if let Placement::Remote(hosts) = &mut self.placement
            && hosts.are_a_tree()
        {
            hosts.tell_all(&ToAgent::SayAll(Box::new(answer.clone())));
            return Ok(());
        }
        (0..self.ranks.len()).try_for_each(|rank| self.answer(rank, answer, None))
    }

    fn answer_value(&mut self, rank: usize, key: &str) -> Result<(), String> {
        let Some(Entry { value, memory }) = self.key_values.entry(key).cloned() else {
            return Ok(());
        };
        let answer = ToRank::Value {
            key: key.to_owned(),
            value,
            memory: memory.is_some(),
        };
        self.answer(rank, &answer, memory)
    }

    pub(super) fn answer(
        &mut self,
        rank: usize,
        answer: &ToRank,
        memory: Option<Memory>,
    ) -> Result<(), String> {
        self.ranks[rank]
            .link
            .send(answer, memory)
            .map_err(|error| format!("cannot be answered: {error}"))
    }
}
