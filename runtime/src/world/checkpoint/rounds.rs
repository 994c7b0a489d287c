//! The rank's part in the rounds of checkpoints of its correlated set. SET-2, SET-4

use super::{Checkpointed, World, broken};
use crate::Error;
use core::time::Duration;
use refrain_checkpoint::Store;
use refrain_job::control::message::ToLauncher;
use refrain_rank::collective::Covers;
use refrain_rank::round::{Fate, SetRounds};
use refrain_transport::engine::Horizon;
use std::time::Instant;

/// Longest wait of a program that takes a checkpoint for the other members of its set to keep their
/// messages. A member answers when it calls the library.
const BEGIN_WAIT: Duration = Duration::from_secs(10);

/// The rounds of this rank's set.
#[derive(Debug, Default)]
pub(in crate::world) struct Rounds {
    /// The rank is in a set with others.
    pub(super) is_in_set: bool,
    /// The last checkpoint that counts; 0: the beginning of the program.
    complete: u64,
    /// The launcher began no round when this rank asked for one.
    is_refused: bool,
    rounds: SetRounds<Unpublished>,
}

/// A stable checkpoint, and what it covers.
#[derive(Debug)]
pub(super) struct Unpublished {
    pub(super) number: u64,
    pub(super) horizon: Horizon,
    pub(super) covers: Option<Covers>,
}

impl Rounds {
    /// The rounds of a life that begins with the checkpoint `complete`.
    pub(in crate::world) fn new(is_in_set: bool, complete: u64) -> Self {
        Self {
            is_in_set,
            complete,
            is_refused: false,
            rounds: SetRounds::default(),
        }
    }

    /// Whether all members wait until this rank's tokens were seen.
    pub(in crate::world) fn begins(&self) -> bool {
        self.rounds.begins()
    }
}

impl World {
    /// The launcher begins a round. SET-2
    pub(in crate::world) fn begin_round(&mut self, number: u64) {
        (self.checkpoints.rounds.rounds).begin(number, &mut self.engine);
    }

    /// Reports that the other members have seen this rank's tokens. SET-2
    pub(in crate::world) fn tell_keeping(&mut self) -> Result<(), Error> {
        match self.checkpoints.rounds.rounds.next_keeping(&self.engine) {
            Some(round) => self.tell(|control| control.report(&ToLauncher::Keeping(round))),
            None => Ok(()),
        }
    }

    /// The launcher requests a checkpoint. In a set all members keep their messages by now.
    pub(in crate::world) fn heed_checkpoint_request(&mut self) {
        self.checkpoints.is_wanted = true;
        self.checkpoints.rounds.rounds.allow();
    }

    /// A round has ended. SET-4
    pub(in crate::world) fn heed_round_end(
        &mut self,
        number: u64,
        is_complete: bool,
    ) -> Result<(), Error> {
        let rounds = &mut self.checkpoints.rounds;
        rounds.is_refused |= !rounds.rounds.is_open();
        let fate = (rounds.rounds).end(number, is_complete, &mut self.engine);
        self.checkpoints.is_wanted &= self.checkpoints.rounds.rounds.is_open();
        self.end_round(fate)
    }

    /// A checkpoint of a round that has ended is published, or removed.
    fn end_round(&mut self, fate: Option<Fate<Unpublished>>) -> Result<(), Error> {
        let last = self.checkpoints.rounds.complete;
        let remove = |store: &Store| store.recover(self.rank, self.incarnation, Some(last));
        match fate {
            None => Ok(()),
            Some(Fate::Complete(it)) => {
                self.checkpoints.rounds.complete = it.number;
                self.publish_checkpoint(it);
                Ok(())
            }
            Some(Fate::Void(_)) => {
                let removed = self.checkpoints.store.as_ref().map(remove);
                removed.transpose().map(drop).map_err(broken)
            }
        }
    }

    /// GC-1: called after the checkpoint is stable, and counts.
    pub(super) fn publish_checkpoint(&mut self, of: Unpublished) {
        self.engine.publish(&of.horizon);
        if let (Some(whole), Some(covers)) = (self.under_way.whole(), of.covers) {
            whole.publish(&covers, &mut self.engine);
        }
    }

    /// The log is full, or a checkpoint has failed: the rank does not keep its messages to members
    /// any more. Returns whether it did. LOG-7
    pub(in crate::world) fn give_up_round(&mut self) -> Result<bool, Error> {
        let Some(round) = self.checkpoints.rounds.rounds.give_up(&mut self.engine) else {
            return Ok(false);
        };
        self.tell(|control| control.report(&ToLauncher::CannotKeep(round)))?;
        Ok(true)
    }

    /// Waits until this rank may take a checkpoint in a round of its set, and begins it. `false`: it
    /// has taken one in this round, or there is none now.
    pub(super) fn enter_round(&mut self) -> Result<bool, Error> {
        let rounds = &mut self.checkpoints.rounds;
        if rounds.rounds.has_taken() {
            return Ok(false);
        }
        rounds.is_refused = false;
        if !rounds.rounds.is_open() {
            self.tell(|control| control.report(&ToLauncher::WantRound))?;
        }
        let give_up_at = Instant::now() + BEGIN_WAIT;
        let may_take = self.block_until(|world| {
            let rounds = &world.checkpoints.rounds;
            let is_over = rounds.is_refused || Instant::now() >= give_up_at;
            let may_take = rounds.rounds.may_take();
            (may_take || is_over).then_some(may_take)
        })?;
        if may_take {
            self.checkpoints.rounds.rounds.take();
            self.checkpoints.is_wanted = false;
        }
        Ok(may_take)
    }

    /// This rank's part of a round is over, with a stable checkpoint or without. SET-2
    pub(super) fn leave_round(
        &mut self,
        taken: Result<(Checkpointed, Unpublished), Error>,
    ) -> Result<Checkpointed, Error> {
        match taken {
            Ok((checkpointed, unpublished)) => {
                let rounds = &mut self.checkpoints.rounds.rounds;
                let fate = rounds.taken(unpublished, &mut self.engine);
                self.end_round(fate)?;
                Ok(checkpointed)
            }
            Err(error) => {
                self.checkpoints.rounds.rounds.failed();
                self.give_up_round()?;
                Err(error)
            }
        }
    }
}
