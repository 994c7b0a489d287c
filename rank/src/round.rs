//! The rounds of checkpoints of this rank's correlated set, as the rank sees them. Pure: what the
//! launcher says comes in; what to tell it, and what becomes of a checkpoint, goes out.
//!
//! All members first keep their messages to each other; then each takes its checkpoint, at a time of
//! its own. It counts when all have one: only then do other ranks free what it covers. SET-2, SET-4

use refrain_transport::engine::Engine;
use refrain_transport::protocol::Protocol;

/// What becomes of a checkpoint of this rank at the end of its round. SET-4
#[derive(Debug, PartialEq, Eq)]
pub enum Fate<T> {
    /// It counts, and is published.
    Complete(T),
    /// It is void, and is removed: it would be taken for one of the two that are kept.
    Void(T),
}

/// The rounds of one life; `T`: what is published of a checkpoint.
#[derive(Debug)]
pub struct SetRounds<T> {
    round: Option<Round<T>>,
}

#[derive(Debug)]
struct Round<T> {
    number: u64,
    stage: Stage<T>,
    /// How it has ended, while this rank writes its checkpoint.
    ended: Option<bool>,
}

#[derive(Debug)]
enum Stage<T> {
    /// Other members have not seen this rank's tokens.
    Begins,
    /// Other members do not keep their messages yet, or this rank takes no checkpoint.
    Waits,
    /// All members keep their messages.
    MayTake,
    Taking,
    Taken(T),
}

impl<T> Default for SetRounds<T> {
    fn default() -> Self {
        Self { round: None }
    }
}

impl<T> SetRounds<T> {
    /// The launcher begins a round: this rank keeps its messages to members from now on. SET-2
    pub fn begin(&mut self, number: u64, engine: &mut Engine<impl Protocol>) {
        engine.begin_round(number);
        self.round = Some(Round {
            number,
            stage: Stage::Begins,
            ended: None,
        });
    }

    /// Whether other members have not seen this rank's tokens.
    pub fn begins(&self) -> bool {
        self.is_at(|stage| matches!(stage, Stage::Begins))
    }

    /// The round for which the launcher is to be told that this rank keeps its messages, and that all
    /// members have seen its tokens. Given once. SET-2
    pub fn next_keeping(&mut self, engine: &Engine<impl Protocol>) -> Option<u64> {
        let round = self.round.as_mut()?;
        if !matches!(round.stage, Stage::Begins) || !engine.is_round_begun() {
            return None;
        }
        round.stage = Stage::Waits;
        Some(round.number)
    }

    /// All members keep their messages.
    pub fn allow(&mut self) {
        if let Some(round) = &mut self.round
            && matches!(round.stage, Stage::Begins | Stage::Waits)
        {
            round.stage = Stage::MayTake;
        }
    }

    /// Whether a round is open.
    pub fn is_open(&self) -> bool {
        self.round.is_some()
    }

    /// Whether this rank may take its checkpoint.
    pub fn may_take(&self) -> bool {
        self.is_at(|stage| matches!(stage, Stage::MayTake))
    }

    /// Whether this rank has its checkpoint, and others have not.
    pub fn has_taken(&self) -> bool {
        self.is_at(|stage| matches!(stage, Stage::Taken(_)))
    }

    fn is_at(&self, stage: impl Fn(&Stage<T>) -> bool) -> bool {
        self.round.as_ref().is_some_and(|it| stage(&it.stage))
    }

    /// This rank takes its checkpoint.
    pub fn take(&mut self) {
        if let Some(round) = &mut self.round {
            round.stage = Stage::Taking;
        }
    }

    /// The checkpoint of this rank is stable. Its messages to members so far are in it, and later ones
    /// are sent again after it: they are not kept any more. SET-2
    pub fn taken(&mut self, it: T, engine: &mut Engine<impl Protocol>) -> Option<Fate<T>> {
        engine.end_round();
        self.round.as_mut()?.stage = Stage::Taken(it);
        self.end_if_ended(engine)
    }

    /// This rank's checkpoint has failed.
    pub fn failed(&mut self) {
        if let Some(round) = &mut self.round {
            round.stage = Stage::Waits;
        }
    }

    /// This rank takes no checkpoint in this round, unless it has one, or takes it now: its log is
    /// full, or the checkpoint has failed. Returns the round for which the launcher is to be told.
    /// LOG-7
    pub fn give_up(&mut self, engine: &mut Engine<impl Protocol>) -> Option<u64> {
        let is_in_it = |it: &Round<T>| matches!(it.stage, Stage::Taking | Stage::Taken(_));
        let round = self.round.take_if(|it| !is_in_it(it))?;
        engine.end_round();
        Some(round.number)
    }

    /// The launcher ends a round. SET-4
    pub fn end(
        &mut self,
        number: u64,
        is_complete: bool,
        engine: &mut Engine<impl Protocol>,
    ) -> Option<Fate<T>> {
        let round = self.round.as_mut().filter(|it| it.number == number)?;
        round.ended = Some(is_complete);
        self.end_if_ended(engine)
    }

    /// While the checkpoint is written, the log is read.
    fn end_if_ended(&mut self, engine: &mut Engine<impl Protocol>) -> Option<Fate<T>> {
        let is_over = |it: &mut Round<T>| it.ended.is_some() && !matches!(it.stage, Stage::Taking);
        let round = self.round.take_if(is_over)?;
        engine.end_round();
        match (round.stage, round.ended) {
            (Stage::Taken(it), Some(true)) => Some(Fate::Complete(it)),
            (Stage::Taken(it), _) => Some(Fate::Void(it)),
            _ => None,
        }
    }
}
