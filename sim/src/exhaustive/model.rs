//! What each action does.

use super::action::Action;
use super::explorer::Model;
use super::process::{Phase, Process};
use super::replica::{Batch, header};
use super::size::{Bug, Size};
use super::world::{World, next_of};
use refrain_eventlog::LoggerId;
use refrain_eventlog::acceptor::Origin;
use refrain_eventlog::client::committer::Acknowledgement;
use refrain_ring::{Incarnation, Rank};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The protocol at a size.
#[derive(Clone, Debug)]
pub struct Core(pub Size);

impl Model for Core {
    type State = World;
    type Action = Action;

    fn initial(&self) -> World {
        let mut world = World::first(&self.0);
        let flow = world.flow(&self.0);
        flow.expect("nothing has gone wrong yet");
        world
    }

    fn fingerprint(&self, world: &World) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&world.ranks, &world.said, &world.budget).hash(&mut hasher);
        // Replicas are alike: who is who does not matter.
        let replicas = (0..self.0.replicas).map(|replica| world.replica_hash(replica));
        replicas.fold(0, u64::wrapping_add).hash(&mut hasher);
        hasher.finish()
    }

    fn actions(&self, world: &World) -> Vec<Action> {
        world.actions(&self.0)
    }

    fn next(&self, world: &World, action: &Action) -> Result<World, String> {
        let mut next = world.clone();
        next.act(*action, &self.0)?;
        next.flow(&self.0)?;
        Ok(next)
    }

    fn check(&self, world: &World, moved: bool) -> Result<(), String> {
        world.check(&self.0)?;
        match moved || world.is_over(&self.0) {
            true => Ok(()),
            false => Err("no dead end: nothing goes on, and a program is not over".to_owned()),
        }
    }

    fn is_fault(&self, action: &Action) -> bool {
        action.is_fault()
    }
}

impl World {
    fn replica_hash(&self, replica: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (process, shelf) in self.ranks.iter().zip(&self.shelves[replica]) {
            let Some(committer) = process.committer() else {
                continue;
            };
            committer.hash_replica(replica, &mut hasher);
            if let Phase::Seeking(seeking) = &process.phase {
                seeking.answers[replica].hash(&mut hasher);
            }
            let said = |ack: Acknowledgement| (ack.incarnation, ack.end, ack.clock);
            (&shelf.row, &shelf.batches, &shelf.late).hash(&mut hasher);
            (shelf.ack.map(said), shelf.stale_ack.map(said)).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn act(&mut self, action: Action, size: &Size) -> Result<(), String> {
        match action {
            Action::Match { rank, source } => {
                let process = &mut self.ranks[rank];
                if let Some(matched) = next_of(process, source) {
                    process.matched(source, matched, true);
                }
            }
            Action::Deliver { rank, replica } => self.deliver(rank, replica),
            Action::Acknowledge { rank, replica } => {
                if let Some(ack) = self.shelves[replica][rank].ack.take() {
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
                self.shelves[replica].fill_with(Default::default);
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
        let shelf = &mut self.shelves[replica][rank];
        if shelf.accept(&batch, Origin::Writer).is_err() {
            // The connection ends with a refusal.
            committer.lose(replica);
            shelf.ack = None;
            return;
        }
        shelf.ack = Some(Acknowledgement {
            logger: LoggerId(replica as u32),
            rank: Rank(rank as u32),
            incarnation,
            clock: shelf.row.last_clock,
            end: shelf.row.end,
        });
    }

    fn acknowledge(&mut self, rank: usize, replica: usize, ack: Acknowledgement) {
        let process = &mut self.ranks[rank];
        if let Some(committer) = process.committer_mut() {
            // One that is not right loses the replica. GATE-3
            let _ = committer.acknowledged(replica, &ack);
        }
        process.look();
    }

    /// GATE-3
    fn stale_ack(&mut self, rank: usize, replica: usize, size: &Size) -> Result<(), String> {
        let stable = |process: &Process| process.committer().map(|it| it.stable_end());
        let Some(mut ack) = self.shelves[replica][rank].stale_ack.take() else {
            return Ok(());
        };
        if let Some(committer) = self.ranks[rank].committer_mut() {
            // The next batch is under way: else nobody would believe it.
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
        let shelf = &mut self.shelves[replica][rank];
        let Some(batch) = shelf.late.pop_front() else {
            return Ok(());
        };
        let writer = header(&batch).incarnation;
        let latest = shelf.row.incarnation;
        if size.bug == Some(Bug::NoFence) {
            // As if the row had not heard of its successor.
            shelf.row.incarnation = writer;
        }
        let end = shelf.row.end;
        // One that is refused has no effect.
        let _ = shelf.accept(&batch, Origin::Writer);
        shelf.row.incarnation = latest;
        match writer < latest && shelf.row.end != end {
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
            let shelf = &mut self.shelves[replica][rank];
            if let Phase::Running(pessimist) = &process.phase {
                // Whatever it may have sent and was not taken yet.
                let mut sender = pessimist.commits().committer.clone();
                while let Some(batch) = sender.next_for(replica) {
                    shelf.late.push_back(Arc::from(batch));
                    sender.sent(replica);
                }
            }
            let ack = shelf.ack.take();
            if size.stale_acks {
                shelf.stale_ack = ack;
            }
        }
        let next = Incarnation(process.incarnation.0 + 1);
        let checkpoints = process.checkpoints.clone();
        self.ranks[rank] = Process::from_checkpoint(rank, size, next, checkpoints, generation);
    }

    fn disconnect(&mut self, replica: usize) {
        for (process, shelf) in self.ranks.iter_mut().zip(&mut self.shelves[replica]) {
            shelf.ack = None;
            shelf.stale_ack = None;
            if let Some(committer) = process.committer_mut() {
                committer.lose(replica);
            }
        }
    }
}
