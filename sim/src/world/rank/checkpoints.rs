//! Checkpoints of a life, and its part in the rounds of its correlated set.

use super::{Activity, Published, ROUND_STEPS_MAX, RankProcess, Stepped, moved_or_idle};
use crate::checkpoints::Checkpoint;
use crate::happening::Happening;
use crate::planted::Planted;
use crate::program::Answer;
use crate::saved::{Beginning as ProgramBeginning, Saved};
use crate::world::log::Saving;
use crate::world::sets::Word;
use refrain_logging::rounds::Order;
use refrain_rank::round::Fate;
use refrain_ring::Ssn;
use refrain_transport::engine::Beginning;

impl RankProcess {
    /// Takes a checkpoint, unless output waits, or messages are still on their way into the log, or
    /// results of neighbours to this rank.
    pub(super) fn take_checkpoint(&mut self) {
        // Words printed before a checkpoint are not printed again after it.
        if !self.prints.is_empty() || self.caller.is_sharing() {
            self.activity = Activity::TakingCheckpoint;
            return;
        }
        self.caller.tidy(&mut self.engine);
        self.engine.gather_from_members();
        let state = match self.engine.state() {
            Ok(state) => state,
            Err(error) => {
                if !error.ends_by_progress() {
                    self.complaint = Some(error.to_string());
                }
                self.activity = Activity::TakingCheckpoint;
                return;
            }
        };
        self.checkpoints += 1;
        let (number, clock) = (self.checkpoints, self.engine.now());
        self.stage
            .tell(&Happening::CheckpointTaken(self.life, number, clock));
        let state = self.bent(state);
        let whole = (self.caller.whole_part(), self.caller.covers());
        let saving = Saving::new((number, self.life.rank), &self.engine, state, whole);
        let is_early = self.is_in_set && self.planted == Some(Planted::RoundPublishedEarly);
        if is_early || self.planted == Some(Planted::FreedBeforeStable) {
            self.engine.publish(&saving.horizon);
        }
        self.activity = Activity::Saving(Box::new(saving));
    }

    /// The engine's state in a checkpoint, as a planted bug changes it.
    fn bent(&self, mut state: Beginning) -> Beginning {
        if self.planted == Some(Planted::ArrivedNotSaved) {
            let own = self.life.rank;
            state.undelivered.retain(|message| message.source == own);
        }
        for delivered in &mut state.delivered {
            match self.planted {
                Some(Planted::UnreceivedSaved) => delivered.except.clear(),
                Some(Planted::ReceivedForgotten) => {
                    let until = &mut delivered.until;
                    until.set(Ssn(until.program.0.saturating_sub(1)));
                    delivered.except.retain(|ssn| until.is_beyond(*ssn));
                }
                _ => {}
            }
        }
        state
    }

    /// Reads more of the logs that belong to the checkpoint. LOG-5
    pub(super) fn save(&mut self, mut saving: Box<Saving>, moved: bool) -> Stepped {
        let part = match saving.step(&mut self.engine) {
            Ok(Some(part)) => part,
            Ok(None) => {
                self.activity = Activity::Saving(saving);
                return moved_or_idle(moved);
            }
            Err(what) => {
                self.complaint = Some(what);
                return Stepped::Idle;
            }
        };
        self.caller.saved(&mut self.engine);
        let (number, clock) = (saving.number, self.engine.now());
        self.taking = Some((saving.horizon, saving.covers));
        self.activity = Activity::Checkpointing(number);
        Stepped::Takes(Box::new(Checkpoint {
            number,
            clock,
            contents: Saved {
                beginning: ProgramBeginning {
                    program: self.program.clone(),
                    answer: Answer::Done,
                    clock,
                    tally: self.tally.clone(),
                },
                engine: Some(part),
            },
        }))
    }

    /// Its checkpoint is stable. Data that the previous generation does not need becomes free.
    /// GC-1, LOG-4
    pub fn checkpoint_is_stable(&mut self, number: u32) {
        if !matches!(self.activity, Activity::Checkpointing(awaited) if awaited == number) {
            return;
        }
        let newest = self.taking.take();
        if self.is_in_set {
            self.words.push(Word::Stable(number));
            let fate = self.rounds.taken((number, newest), &mut self.engine);
            self.end_round(fate);
        } else {
            self.counts(number, newest);
        }
        self.answered(Answer::Done);
    }

    /// A checkpoint counts from now on.
    fn counts(&mut self, number: u32, newest: Option<Published>) {
        let superseded = core::mem::replace(&mut self.newest_number, number);
        let before = core::mem::replace(&mut self.newest, newest);
        let published = match self.planted {
            Some(Planted::OneGeneration) => self.newest.clone(),
            _ => before,
        };
        if let Some((published, covers)) = published {
            // This checkpoint and the one before it are kept.
            let superseded = superseded.saturating_sub(1);
            let told = Happening::CheckpointsSuperseded(self.life.rank, superseded);
            self.stage.tell(&told);
            self.engine.publish(&published);
            self.caller.publish(covers.as_ref(), &mut self.engine);
        }
    }

    /// What it has to tell the launcher about rounds of its set.
    pub fn take_words(&mut self) -> Vec<Word> {
        core::mem::take(&mut self.words)
    }

    /// The launcher tells it about a round of its set. SET-2, SET-4
    pub fn heed_order(&mut self, order: Order) {
        match order {
            Order::Begin(_, round) => {
                self.rounds.begin(round, &mut self.engine);
                match self.planted {
                    Some(Planted::TokensNotAwaited) => self.rounds.allow(),
                    Some(Planted::TokenWithoutKeeping) => self.engine.forget_to_keep(),
                    _ => {}
                }
            }
            Order::Take(_) => self.rounds.allow(),
            Order::End(_, round, is_complete) => {
                self.is_refused |= !self.rounds.is_open();
                let fate = self.rounds.end(round, is_complete, &mut self.engine);
                self.end_round(fate);
            }
        }
    }

    fn end_round(&mut self, fate: Option<Fate<(u32, Option<Published>)>>) {
        match fate {
            None => {}
            Some(Fate::Complete((number, published))) => self.counts(number, published),
            Some(Fate::Void((number, _))) => {
                self.words.push(Word::Void(self.newest_number, number + 1));
            }
        }
    }

    pub(super) fn ask_for_round(&mut self) -> Stepped {
        if self.rounds.has_taken() {
            return self.answered(Answer::Done);
        }
        self.is_refused = false;
        if !self.rounds.is_open() {
            self.words.push(Word::WantRound);
        }
        self.activity = Activity::EnteringRound(ROUND_STEPS_MAX);
        Stepped::Moved
    }

    pub(super) fn enter_round(&mut self, left: u32, moved: bool) -> Stepped {
        if self.rounds.may_take() {
            self.rounds.take();
            self.activity = Activity::TakingCheckpoint;
            self.take_checkpoint();
            return Stepped::Moved;
        }
        match left {
            _ if self.is_refused => self.answered(Answer::Done),
            0 => self.answered(Answer::Done),
            _ => {
                self.activity = Activity::EnteringRound(left - 1);
                moved_or_idle(moved)
            }
        }
    }
}
