//! The actions of the model: which are possible, and what each does.

use super::loggers::{Batch, header};
use super::process::{Phase, Process};
use super::world::{World, is_to_choose, next_of};
use super::{Bug, Joining, Reading, Size};
use refrain_eventlog::LoggerId;
use refrain_eventlog::acceptor::Origin;
use refrain_eventlog::client::committer::Acknowledgement;
use refrain_ring::{Incarnation, Rank};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// A step of the model that the explorer chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A receive from any rank gets a message of `source`.
    Match { rank: usize, source: usize },
    /// The next batch of a rank reaches a replica, which answers.
    Deliver { rank: usize, replica: usize },
    /// A replica's acknowledgement reaches the rank.
    Acknowledge { rank: usize, replica: usize },
    /// A beginning life surveys a replica.
    Survey { rank: usize, replica: usize },
    /// A replica is asked to admit a life.
    Join {
        rank: usize,
        replica: usize,
        reversed: bool,
    },
    /// A life that a quorum has admitted reads its determinants from these two replicas.
    Read { rank: usize, from: [usize; 2] },
    /// A batch of a dead life arrives.
    Late { rank: usize, replica: usize },
    /// An acknowledgement to a dead life arrives.
    StaleAck { rank: usize, replica: usize },
    /// A rank dies; its next life begins with one of its two checkpoints.
    Crash { rank: usize, generation: usize },
    /// A logger restarts; messages on their way to and from it are lost.
    Restart { replica: usize },
    /// A logger loses its data.
    Lose { replica: usize },
}

impl Action {
    /// Whether the action is a fault: a fault can occur but need not.
    pub(super) fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Late { .. }
                | Self::StaleAck { .. }
                | Self::Crash { .. }
                | Self::Restart { .. }
                | Self::Lose { .. }
        )
    }
}

impl World {
    pub(super) fn actions(&self, size: &Size) -> Vec<Action> {
        let mut all = Vec::new();
        for rank in 0..self.ranks.len() {
            self.add_choices(rank, size, &mut all);
            for replica in 0..size.replicas {
                self.add_between(rank, replica, size, &mut all);
            }
            self.add_crashes(rank, &mut all);
        }
        for replica in 0..size.replicas {
            if self.budget.logger_restarts > 0 {
                all.push(Action::Restart { replica });
            }
            if self.budget.losses > 0 && self.is_superfluous(replica) {
                all.push(Action::Lose { replica });
            }
        }
        all
    }

    fn add_choices(&self, rank: usize, size: &Size, all: &mut Vec<Action>) {
        let process = &self.ranks[rank];
        if is_to_choose(process, size.programs[rank].get(process.at.place)) {
            let is_here = |source: &usize| next_of(process, *source).is_some();
            let sources = (0..self.ranks.len()).filter(is_here);
            all.extend(sources.map(|source| Action::Match { rank, source }));
        }
        if size.reading == Reading::AnyOfEveryQuorum && self.is_joined(rank) {
            let pairs = (0..size.replicas).flat_map(|one| (0..one).map(move |other| [other, one]));
            all.extend(pairs.map(|from| Action::Read { rank, from }));
        }
    }

    fn add_between(&self, rank: usize, replica: usize, size: &Size, all: &mut Vec<Action>) {
        let process = &self.ranks[rank];
        let held = &self.loggers[replica][rank];
        let Some(committer) = process.committer() else {
            return;
        };
        let is_seeking = matches!(process.phase, Phase::Seeking(_));
        if committer.is_lost(replica) {
            match committer.start() {
                None if is_seeking => all.push(Action::Survey { rank, replica }),
                _ => {
                    let orders = match size.joining {
                        Joining::FirstKept => 2,
                        Joining::Marked => 1,
                    };
                    let orders = [false, true].into_iter().take(orders);
                    all.extend(orders.map(|reversed| Action::Join {
                        rank,
                        replica,
                        reversed,
                    }));
                }
            }
        }
        if committer.next_for(replica).is_some() {
            all.push(Action::Deliver { rank, replica });
        }
        if held.ack.is_some() {
            all.push(Action::Acknowledge { rank, replica });
        }
        if size.stale_acks && held.stale_ack.is_some() && committer.is_live(replica) {
            all.push(Action::StaleAck { rank, replica });
        }
        if !held.late.is_empty() {
            all.push(Action::Late { rank, replica });
        }
    }

    fn add_crashes(&self, rank: usize, all: &mut Vec<Action>) {
        if self.budget.crashes == 0 {
            return;
        }
        let [older, newest] = &self.ranks[rank].checkpoints;
        let generations = if older == newest { 1..2 } else { 0..2 };
        all.extend(generations.map(|generation| Action::Crash { rank, generation }));
    }

    /// Whether every other replica has all data of this one; only then may it be lost.
    fn is_superfluous(&self, replica: usize) -> bool {
        let mine = &self.loggers[replica];
        let mut others = self.loggers.iter().enumerate();
        others.all(|(other, theirs)| {
            let mut rows = mine.iter().zip(theirs);
            other == replica || rows.all(|(mine, theirs)| mine.row_end() <= theirs.row_end())
        })
    }
}

impl World {
    pub(super) fn replica_hash(&self, replica: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (process, held) in self.ranks.iter().zip(&self.loggers[replica]) {
            let Some(committer) = process.committer() else {
                continue;
            };
            committer.hash_replica(replica, &mut hasher);
            if let Phase::Seeking(seeking) = &process.phase {
                seeking.answers[replica].hash(&mut hasher);
            }
            let said = |ack: Acknowledgement| (ack.incarnation, ack.end, ack.clock);
            (&held.row, &held.batches, &held.late).hash(&mut hasher);
            (held.ack.map(said), held.stale_ack.map(said)).hash(&mut hasher);
        }
        hasher.finish()
    }

    pub(super) fn act(&mut self, action: Action, size: &Size) -> Result<(), String> {
        match action {
            Action::Match { rank, source } => {
                let process = &mut self.ranks[rank];
                if let Some(matched) = next_of(process, source) {
                    process.matched(source, matched, true);
                }
            }
            Action::Deliver { rank, replica } => self.deliver(rank, replica),
            Action::Acknowledge { rank, replica } => {
                if let Some(ack) = self.loggers[replica][rank].ack.take() {
                    self.acknowledge(rank, replica, ack);
                }
            }
            Action::Survey { rank, replica } => self.survey(rank, replica, size),
            Action::Join {
                rank,
                replica,
                reversed,
            } => {
                self.join(rank, replica, reversed, size);
                self.begin_if_joined(rank, size)?;
                self.ranks[rank].look();
            }
            Action::Read { rank, from } => self.begin(rank, &from)?,
            Action::Late { rank, replica } => self.late(rank, replica, size)?,
            Action::StaleAck { rank, replica } => self.stale_ack(rank, replica, size)?,
            Action::Crash { rank, generation } => self.crash(rank, generation, size),
            Action::Restart { replica } => {
                self.budget.logger_restarts -= 1;
                self.disconnect(replica);
            }
            Action::Lose { replica } => {
                self.budget.losses -= 1;
                self.disconnect(replica);
                self.loggers[replica].fill_with(Default::default);
            }
        }
        Ok(())
    }

    fn deliver(&mut self, rank: usize, replica: usize) {
        let process = &mut self.ranks[rank];
        let incarnation = process.incarnation;
        let Some(committer) = process.committer_mut() else {
            return;
        };
        let Some(batch) = committer.next_for(replica).map(Batch::from) else {
            return;
        };
        committer.sent(replica);
        let held = &mut self.loggers[replica][rank];
        if held.accept(&batch, Origin::Writer).is_err() {
            // A refusal ends the connection.
            committer.lose(replica);
            held.ack = None;
            return;
        }
        held.ack = Some(Acknowledgement {
            logger: LoggerId(replica as u32),
            rank: Rank(rank as u32),
            incarnation,
            clock: held.row.last_clock,
            end: held.row.end,
        });
    }

    fn acknowledge(&mut self, rank: usize, replica: usize, ack: Acknowledgement) {
        let process = &mut self.ranks[rank];
        if let Some(committer) = process.committer_mut() {
            // A wrong acknowledgement makes the committer lose the replica. GATE-3
            let _ = committer.acknowledged(replica, &ack);
        }
        process.look();
    }

    /// Delivers an acknowledgement to a dead life to the later one; it must have no effect. GATE-3
    fn stale_ack(&mut self, rank: usize, replica: usize, size: &Size) -> Result<(), String> {
        let stable = |process: &Process| process.committer().map(|it| it.stable_end());
        let Some(mut ack) = self.loggers[replica][rank].stale_ack.take() else {
            return Ok(());
        };
        if let Some(committer) = self.ranks[rank].committer_mut() {
            // A batch is under way; without one, any acknowledgement would be refused.
            committer.sent(replica);
        }
        if size.bug == Some(Bug::AnyIncarnation) {
            ack.incarnation = self.ranks[rank].incarnation;
            self.acknowledge(rank, replica, ack);
            return Ok(());
        }
        let before = stable(&self.ranks[rank]);
        self.acknowledge(rank, replica, ack);
        match before == stable(&self.ranks[rank]) {
            true => Ok(()),
            false => Err(format!("GATE-3: {ack:?} counts for a later life")),
        }
    }

    fn late(&mut self, rank: usize, replica: usize, size: &Size) -> Result<(), String> {
        let held = &mut self.loggers[replica][rank];
        let Some(batch) = held.late.pop_front() else {
            return Ok(());
        };
        let writer = header(&batch).incarnation;
        let latest = held.row.incarnation;
        if size.bug == Some(Bug::NoFence) {
            // As if the log had not received the hello of the successor.
            held.row.incarnation = writer;
        }
        let end = held.row.end;
        // A refused batch has no effect.
        let _ = held.accept(&batch, Origin::Writer);
        held.row.incarnation = latest;
        match writer < latest && held.row.end != end {
            true => Err(format!(
                "FENCE-1: logger {replica} took a batch of incarnation {} of rank {rank} after \
                 incarnation {} was heard",
                writer.0, latest.0
            )),
            false => Ok(()),
        }
    }

    fn crash(&mut self, rank: usize, generation: usize, size: &Size) {
        self.budget.crashes -= 1;
        let process = &self.ranks[rank];
        for replica in 0..size.replicas {
            let held = &mut self.loggers[replica][rank];
            if let Phase::Running(pessimist) = &process.phase {
                // Batches that the life may have sent and that have not arrived.
                let mut sender = pessimist.commits().committer.clone();
                while let Some(batch) = sender.next_for(replica) {
                    held.late.push_back(Arc::from(batch));
                    sender.sent(replica);
                }
            }
            let ack = held.ack.take();
            if size.stale_acks {
                held.stale_ack = ack;
            }
        }
        let next = Incarnation(process.incarnation.0 + 1);
        let checkpoints = process.checkpoints.clone();
        self.ranks[rank] = Process::from_checkpoint(rank, size, next, checkpoints, generation);
    }

    fn disconnect(&mut self, replica: usize) {
        for (process, held) in self.ranks.iter_mut().zip(&mut self.loggers[replica]) {
            held.ack = None;
            held.stale_ack = None;
            if let Some(committer) = process.committer_mut() {
                committer.lose(replica);
            }
        }
    }
}
