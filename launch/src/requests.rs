//! What ranks ask of the launcher over their control sockets.

use super::Job;
use super::key_values::{Entry, Fencing};
use super::link::Memory;
use super::recoveries;
use super::recoveries::Cause;
use super::replacement::address_key;
use super::start::Placement;
use super::verdict::Membership;
use refrain_job::control::message::{ToLauncher, ToRank};
use refrain_job::output_gate::{self, OutputGate};
use std::time::Instant;

impl Job {
    /// Hears all that `rank` has said, and answers.
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
            // It has been told to stop, which is the answer to everything.
            return self.note_leaving(rank, &message);
        }
        if let Err(wrong) = self
            .check_turn(rank, &message)
            .and_then(|()| self.serve_request(rank, message, memory))
        {
            self.fail(1, format!("rank {rank} {wrong}"));
        }
    }

    fn note_leaving(&mut self, rank: usize, message: &ToLauncher) {
        if *message == ToLauncher::Finalize {
            self.ranks[rank].membership = Membership::Left;
        }
    }

    /// Refuses what cannot be said now.
    fn check_turn(&self, rank: usize, message: &ToLauncher) -> Result<(), String> {
        match (message, self.ranks[rank].membership) {
            (ToLauncher::Hello { .. }, Membership::Stranger) => Ok(()),
            (ToLauncher::Hello { process }, _) => Err(format!(
                "joined the job a second time (process {process}): a wrapper may start one program that joins, once"
            )),
            (_, Membership::Stranger) => Err("sent a message before it joined the job".into()),
            (ToLauncher::Abort { .. }, _) | (_, Membership::Member) => Ok(()),
            // Behind a last fence a rank has left before it says so.
            (ToLauncher::Finalize | ToLauncher::Statistics { .. }, _) => Ok(()),
            // It was asked before.
            (ToLauncher::Status { .. } | ToLauncher::WantCheckpoint { .. }, _) => Ok(()),
            // It has not heard yet that all have passed the last fence.
            (ToLauncher::Suspect { .. }, _) => Ok(()),
            (ToLauncher::Taking { .. } | ToLauncher::Stable { .. }, _) => Ok(()),
            (_, Membership::Left) => Err("speaks after it has left the job".into()),
        }
    }

    fn serve_request(
        &mut self,
        rank: usize,
        message: ToLauncher,
        memory: Option<Memory>,
    ) -> Result<(), String> {
        match message {
            ToLauncher::Hello { process } => {
                self.ranks[rank].join(process);
                self.recoveries.joined(rank, Instant::now());
                self.answer(rank, &self.welcome(rank), None)?;
                self.introduce_joined(rank);
                Ok(())
            }
            ToLauncher::Put {
                key, memory: true, ..
            } if key == output_gate::key(rank as u32) => {
                let Some(Memory::Here(file)) = memory else {
                    return Err("sent no page with its key, or is on another host".into());
                };
                let gate = OutputGate::open(&file).map_err(|error| {
                    format!("published an output gate that cannot be used: {error}")
                })?;
                self.ranks[rank].gate = Some(gate);
                Ok(())
            }
            ToLauncher::Put { key, value, .. } => self.publish(rank, &key, value, memory),
            ToLauncher::Get { key } => match self.key_values.get(rank, &key)?.is_some() {
                true => self.answer_value(rank, &key),
                false => Ok(()),
            },
            ToLauncher::Fence { generation, last } => self.reach_fence(rank, generation, last),
            ToLauncher::Statistics { figures } => {
                self.statistics.resize(self.ranks.len(), None);
                self.statistics[rank] = Some(*figures);
                Ok(())
            }
            ToLauncher::Beginning { checkpoint } => {
                self.begin_life(rank, checkpoint)?;
                self.answer(rank, &ToRank::Marked { checkpoint }, None)
            }
            ToLauncher::Mark { checkpoint } => {
                self.mark_output(rank, checkpoint);
                self.answer(rank, &ToRank::Marked { checkpoint }, None)
            }
            ToLauncher::Taking { .. } => {
                let now = self.schedule.now();
                self.schedule.scheduler.begun(rank, now);
                Ok(())
            }
            ToLauncher::Status { figures } => {
                self.schedule.scheduler.answered(rank, *figures);
                Ok(())
            }
            ToLauncher::WantCheckpoint { of } => {
                self.schedule.scheduler.wish(of as usize);
                Ok(())
            }
            ToLauncher::Stable {
                checkpoint,
                bytes,
                log_bytes,
            } => {
                let now = self.schedule.now();
                let scheduler = &mut self.schedule.scheduler;
                scheduler.stable(rank, (bytes, log_bytes), now);
                self.lives[rank].checkpoint = Some((checkpoint, Instant::now()));
                let outputs = &mut self.ranks[rank].outputs;
                outputs
                    .iter_mut()
                    .for_each(|output| output.forget_before(checkpoint));
                Ok(())
            }
            ToLauncher::Suspect {
                rank: suspect,
                incarnation,
            } => {
                let cause = match suspect as usize == rank {
                    true => Cause::Disconnected,
                    false => Cause::Lost,
                };
                self.suspect(suspect as usize, incarnation, cause);
                Ok(())
            }
            ToLauncher::Replaying { figures } => {
                self.lives[rank].replay = Some(figures);
                Ok(())
            }
            ToLauncher::Recovered { figures } => {
                self.lives[rank].caught_up();
                let incarnation = self.lives[rank].incarnation;
                // Behind the last fence the files are all that is left of what ranks
                // have sent.
                if !self.past_last_fence {
                    for line in self.spilled.caught_up(rank, incarnation) {
                        self.say(Some(line));
                    }
                }
                let difference = (!self.recoveries.has_differed(rank))
                    .then(|| recoveries::explain(rank, &figures));
                let line = self.recoveries.finished(rank, *figures, Instant::now());
                self.say_of(rank, line);
                self.say(difference.flatten());
                Ok(())
            }
            ToLauncher::Finalize => {
                self.ranks[rank].membership = Membership::Left;
                Ok(())
            }
            ToLauncher::Abort { message } => {
                self.abort(rank, &message);
                Ok(())
            }
        }
    }

    fn welcome(&self, rank: usize) -> ToRank {
        let mut config = Box::new(self.config.clone());
        if let Placement::Remote(hosts) = &self.placement {
            let (of_host, launcher) = hosts.config_of(rank);
            *config = of_host.clone();
            config.events = self.config.events.clone();
            if let Some(shards) = self.loggers.shards_at(launcher) {
                config.events.shards = shards;
            }
        }
        config.recovery.kill_at_clock = self.lives[rank].kill_at_clock;
        ToRank::Welcome {
            job: self.id,
            rank: rank as u32,
            size: self.ranks.len() as u32,
            incarnation: self.lives[rank].incarnation,
            config,
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
            // Before the value: who gets it knows which life it is of.
            self.introduce_address(rank);
        }
        waiters
            .into_iter()
            .try_for_each(|waiter| self.answer_value(waiter, key))
    }

    fn reach_fence(&mut self, rank: usize, generation: u64, last: bool) -> Result<(), String> {
        let done = ToRank::FenceDone { generation };
        // One that was shot may not have heard of it yet: it dies of it all the same.
        let (ranks, all) = (&self.ranks, &self.lives);
        let lives = |rank: usize| !ranks[rank].has_ended() && all[rank].shot.is_none();
        match self.key_values.fence(rank, generation, last, lives)? {
            Fencing::Waits => Ok(()),
            Fencing::HasPassed => {
                if last {
                    self.ranks[rank].membership = Membership::Left;
                }
                self.answer(rank, &done, None)
            }
            Fencing::Opens { leaving } => {
                self.past_last_fence = leaving.len() == self.ranks.len();
                for rank in leaving {
                    self.ranks[rank].membership = Membership::Left;
                }
                (0..self.ranks.len()).try_for_each(|rank| self.answer(rank, &done, None))
            }
        }
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

    fn answer(
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
