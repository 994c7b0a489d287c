//! One life of a rank: its program on the real engine; and the slot of a rank in the job: a life,
//! or the note of a dead one.

mod checkpoints;
mod slot;

pub use slot::{Joining, RankSlot};

use super::assembly::LifeBeginning;
use super::calls::Caller;
use super::events::{SimCommitments, SimOutput, Watched};
use super::log::Saving;
use super::sets::Word;
use super::stage::Stage;
use crate::checkpoints::Checkpoint;
use crate::crash_point::CrashPoint;
use crate::explorer::hash_words;
use crate::happening::{Breach, Happening, Life};
use crate::planted::Planted;
use crate::program::{Answer, Call, Program, litter};
use crate::saved::{Saved, Tally};
use refrain_logging::held::Holdings;
use refrain_logging::pessimist::Pessimist;
use refrain_logging::store::faulty::MemoryDisk;
use refrain_rank::collective::{Covers, Whole};
use refrain_rank::protocol::Logging;
use refrain_rank::round::SetRounds;
use refrain_ring::{Clock, Incarnation, Rank, Region, Ssn};
use refrain_transport::engine::{Engine, EngineError, Horizon};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// The engine of a simulated rank.
pub type SimEngine = Engine<Watched<Logging<SimCommitments, SimOutput>>>;

/// The current activity of a program.
#[derive(Debug)]
enum Activity {
    /// It has this answer and makes its next call.
    Computing(Answer),
    /// It is blocked in this call.
    Blocked(Call),
    /// It waits for a round of its correlated set, at most for this many steps.
    EnteringRound(u32),
    /// It waits until everything sent is in the log; then it takes a checkpoint.
    TakingCheckpoint,
    /// The logs that belong to its checkpoint are being read.
    Saving(Box<Saving>),
    /// It waits until the checkpoint with this number is stable.
    Checkpointing(u32),
    Finished,
}

/// Steps that a program waits for a round of its set to begin.
const ROUND_STEPS_MAX: u32 = 200;

/// What a checkpoint covers: messages and events, and collectives whose results are kept.
type Published = (Horizon, Option<Covers>);

/// The result of one step of a rank.
#[derive(Debug)]
pub enum Stepped {
    /// Something moved.
    Moved,
    /// Nothing moved.
    Idle,
    /// The step took this checkpoint; the store is to write it.
    Takes(Box<Checkpoint<Saved>>),
}

/// See the [module](self).
pub struct RankProcess {
    /// The life.
    pub life: Life,
    /// The death of the process.
    pub crash_point: CrashPoint,
    /// The real engine.
    pub engine: SimEngine,
    program: Program,
    tally: Tally,
    caller: Caller,
    activity: Activity,
    /// Words that wait to be output, each with the number of events before it.
    prints: VecDeque<(u64, u64)>,
    /// Number of words that earlier lives have output and that this one prints again.
    seen_before: usize,
    /// The number of the latest checkpoint.
    checkpoints: u32,
    /// Horizons of the checkpoint that is being written, and of the newest stable one.
    taking: Option<Published>,
    newest: Option<Published>,
    newest_number: u32,
    /// Whether it is in a set with others; its part in the rounds, with the number of a checkpoint
    /// and what it covers; whether the launcher has begun none; what to tell the launcher.
    is_in_set: bool,
    rounds: SetRounds<(u32, Option<Published>)>,
    is_refused: bool,
    words: Vec<Word>,
    stage: Rc<Stage>,
    planted: Option<Planted>,
    /// The first message that each log still has, by receiver.
    begins: Vec<Ssn>,
    spills: bool,
    /// Number of steps for which the process still pauses.
    pub pause_steps: u64,
    /// Number of steps until a replaced life ends.
    steps_left: Option<u64>,
    memory: Region,
    disk: Option<MemoryDisk>,
    /// What is wrong with this life, if anything.
    complaint: Option<String>,
    /// The life that determines the arbitrary bytes in its messages.
    litter: Incarnation,
    /// Its replay has ended while all peers were connected: its log has everything that the logs of
    /// earlier lives had.
    has_caught_up: bool,
}

impl core::fmt::Debug for RankProcess {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RankProcess")
            .field("life", &self.life)
            .field("activity", &self.activity)
            .finish_non_exhaustive()
    }
}

/// The parts from which a life is made.
pub struct Parts {
    pub life: Life,
    pub crash_point: CrashPoint,
    pub engine: SimEngine,
    pub stage: Rc<Stage>,
    pub planted: Option<Planted>,
    /// The failures that results of collectives survive, if they are kept.
    pub whole: Option<u32>,
    pub is_in_set: bool,
    pub spills: bool,
    pub begins: LifeBeginning,
    pub memory: Region,
    pub disk: Option<MemoryDisk>,
}

impl RankProcess {
    /// A life at the beginning of its program or at a checkpoint.
    pub fn new(parts: Parts) -> Self {
        let LifeBeginning {
            number,
            next_number,
            seen_before,
            saved: Saved { beginning, engine },
            ..
        } = parts.begins;
        let whole = parts.whole.map(|failures| {
            let is_later_life = parts.life.incarnation > Incarnation(0);
            let engine = engine.filter(|_| parts.planted != Some(Planted::ResultsForgotten));
            let part = engine.map(|engine| engine.whole).unwrap_or_default();
            Whole::new(parts.life.rank, failures, is_later_life, part)
        });
        let tally = beginning.tally;
        let mut caller = Caller::new(
            parts.life,
            tally.requests,
            tally.taken,
            parts.planted,
            whole,
        );
        let horizon = (parts.engine.horizon(), caller.covers());
        let mut program = beginning.program;
        match parts.planted {
            Some(Planted::ContextsAnew) => program.give_contexts_anew(),
            Some(Planted::CollectivesCountedAnew) => program.count_collectives_anew(),
            _ => {}
        }
        Self {
            life: parts.life,
            crash_point: parts.crash_point,
            engine: parts.engine,
            program,
            begins: vec![Ssn(0); tally.next_ssn_to.len()],
            tally,
            caller,
            activity: Activity::Computing(beginning.answer),
            prints: VecDeque::new(),
            seen_before,
            checkpoints: next_number - 1,
            taking: None,
            newest: (number > 0).then_some(horizon),
            newest_number: number,
            is_in_set: parts.is_in_set,
            rounds: SetRounds::default(),
            is_refused: false,
            words: Vec::new(),
            stage: parts.stage,
            planted: parts.planted,
            spills: parts.spills,
            pause_steps: 0,
            steps_left: None,
            memory: parts.memory,
            disk: parts.disk,
            complaint: None,
            litter: parts.life.incarnation,
            has_caught_up: parts.life.incarnation == Incarnation(0),
        }
    }

    /// Notes that the life was replaced, which it does not know: it ends after `steps` more steps.
    pub fn doom(&mut self, steps: u64) {
        self.steps_left = Some(steps);
        // Its output no longer counts.
        self.prints.clear();
    }

    fn events_mut(&mut self) -> &mut Pessimist<SimCommitments> {
        let logging = &mut self.engine.protocol_mut().inner;
        logging.events_mut().expect("simulated ranks log events")
    }

    /// The events at other ranks, if they are there.
    pub fn holdings(&mut self) -> Option<&mut Holdings> {
        self.events_mut().commits_mut().held()
    }

    /// Sets the life that determines the arbitrary bytes in its messages.
    #[must_use]
    pub fn with_litter(mut self, litter: Incarnation) -> Self {
        self.litter = litter;
        self
    }

    /// The memory of its log, and its disk; both can be read after its death.
    pub fn leave(&self) -> (Region, Option<MemoryDisk>) {
        (self.memory.clone(), self.disk.clone())
    }

    fn reaches_all(&self) -> bool {
        let peers = (0..self.engine.size()).map(Rank);
        let mut others = peers.filter(|peer| *peer != self.life.rank);
        others.all(|peer| self.engine.is_live(peer))
    }

    /// Whether the logs of earlier lives are no longer needed.
    pub fn has_caught_up(&self) -> bool {
        self.has_caught_up
    }

    /// Whether its program has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.activity, Activity::Finished)
    }

    /// Whether emissions or output wait.
    pub fn holds_back(&self) -> bool {
        self.engine.awaits_commit() || !self.prints.is_empty()
    }

    /// Describes its activity, gate and stall.
    pub fn explain(&self) -> String {
        let gate = self.engine.explain_gate().unwrap_or_default();
        let stall = self.engine.stall();
        format!("{:?}; {gate}; stall: {stall:?}", self.activity)
    }

    /// What its program found wrong with an answer, or what is wrong with the life.
    pub fn complaint(&self) -> Option<&str> {
        let complaint = self.complaint.as_deref().or(self.caller.complaint());
        complaint.or(self.program.complaint())
    }

    /// Its program.
    #[cfg(test)]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The state of its program.
    pub fn state(&self) -> u64 {
        self.program.state()
    }

    /// Makes one call, or asks once for the answer of the call that blocks.
    ///
    /// # Errors
    /// Errors of the engine; none are expected.
    pub fn step(&mut self) -> Result<Stepped, EngineError> {
        if let Some(left) = &mut self.steps_left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.crash_point.kill();
                return Ok(Stepped::Moved);
            }
        }
        let activity = core::mem::replace(&mut self.activity, Activity::Finished);
        let stepped = match activity {
            Activity::Computing(answer) => self.call(&answer)?,
            Activity::Blocked(call) => {
                self.engine.rest_idle();
                let moved = self.caller.progress(&mut self.engine)?;
                match self.caller.ask(&mut self.engine, &call) {
                    Some(answer) => self.answered(answer),
                    None => {
                        self.activity = Activity::Blocked(call);
                        moved_or_idle(moved)
                    }
                }
            }
            Activity::EnteringRound(left) => {
                let moved = self.caller.progress(&mut self.engine)?;
                self.enter_round(left, moved)
            }
            Activity::TakingCheckpoint => {
                let moved = self.caller.progress(&mut self.engine)?;
                self.take_checkpoint();
                moved_or_idle(moved || !matches!(self.activity, Activity::TakingCheckpoint))
            }
            Activity::Saving(saving) => {
                let moved = self.caller.progress(&mut self.engine)?;
                self.save(saving, moved)
            }
            still => {
                self.activity = still;
                moved_or_idle(self.caller.progress(&mut self.engine)?)
            }
        };
        self.print();
        self.tell_freed();
        let keeping = self.rounds.next_keeping(&self.engine);
        self.words.extend(keeping.map(Word::Keeping));
        if !self.has_caught_up {
            self.has_caught_up =
                !self.engine.is_replaying() && self.reaches_all() && !self.engine.is_comparing();
        }
        Ok(stepped)
    }

    /// The result of a step, if nothing is wrong.
    ///
    /// # Errors
    /// The error of the engine, or the complaint of the program.
    pub fn checked(&self, stepped: Result<Stepped, EngineError>) -> Result<Stepped, Breach> {
        let stepped = stepped.map_err(|error| self.broken(&error))?;
        match self.complaint() {
            None => Ok(stepped),
            Some(complaint) => Err(Breach {
                oracle: "program",
                what: format!("{}: {complaint}", self.life),
            }),
        }
    }

    /// The breach for an error of the engine.
    pub fn broken(&self, error: &EngineError) -> Breach {
        Breach {
            oracle: "engine",
            what: format!("{}: {error}", self.life),
        }
    }

    fn call(&mut self, answer: &Answer) -> Result<Stepped, EngineError> {
        let call = self.program.next(answer);
        let clock = Clock(self.engine.now().0 + u64::from(call.is_operation()));
        self.stage.tell(&Happening::Called(self.life, clock, &call));
        self.tally.called(&call);
        match call {
            Call::Print(word) => {
                let recorded = self.events_mut().recorded();
                // Output waits for its events, which must be committed.
                self.engine.protocol_mut().inner.watch_mut().wanted = recorded;
                if self.steps_left.is_none() {
                    self.prints.push_back((word, recorded));
                }
                Ok(self.answered(Answer::Done))
            }
            Call::Checkpoint if self.is_in_set => Ok(self.ask_for_round()),
            Call::Checkpoint => {
                self.activity = Activity::TakingCheckpoint;
                self.take_checkpoint();
                Ok(Stepped::Moved)
            }
            Call::Finish => {
                self.activity = Activity::Finished;
                Ok(Stepped::Moved)
            }
            mut call => {
                if let Call::Isend { payload, .. } = &mut call {
                    litter(payload, self.litter);
                }
                match self.caller.begin(&mut self.engine, &call)? {
                    Some(answer) => Ok(self.answered(answer)),
                    None => {
                        self.activity = Activity::Blocked(call);
                        Ok(Stepped::Moved)
                    }
                }
            }
        }
    }

    fn answered(&mut self, answer: Answer) -> Stepped {
        let clock = self.engine.now();
        self.tally.answered(&answer);
        if self.planted == Some(Planted::FreedWhenReceived) {
            self.engine.publish_horizon();
        }
        // A dead life gets no answer.
        if !self.crash_point.is_dead() {
            self.stage
                .tell(&Happening::Answered(self.life, clock, &answer));
        }
        self.activity = Activity::Computing(answer);
        Stepped::Moved
    }

    /// Outputs the printed words whose events are stable. GATE-1
    fn print(&mut self) {
        let stable = self.events_mut().stable();
        let around = self.planted == Some(Planted::OutputAroundGate);
        while let Some((word, before)) = self.prints.front().copied() {
            if before > stable && !around {
                break;
            }
            self.prints.pop_front();
            let (stage, life) = (&self.stage, self.life);
            if self.seen_before > 0 {
                self.seen_before -= 1;
                stage.tell(&Happening::SeenBefore(life, word));
                continue;
            }
            self.crash_point
                .act(|| stage.tell(&Happening::Seen(life, word)));
        }
    }

    fn tell_freed(&mut self) {
        for peer in 0..self.begins.len() {
            let receiver = Rank(peer as u32);
            if receiver == self.life.rank {
                continue;
            }
            // Memory is freed in whole chunks, so the horizon can be further. With spilling,
            // messages that are no longer in memory may be on disk.
            let horizon = self.engine.log_horizon(receiver);
            let first = match self.spills {
                true => horizon,
                false => horizon.max(self.engine.log_begins(receiver)),
            };
            if first > self.begins[peer] {
                self.begins[peer] = first;
                self.stage
                    .tell(&Happening::Freed(self.life.rank, receiver, first));
            }
        }
    }
}

impl RankProcess {
    /// Hashes all state on which the process depends, except batches that are not stable.
    pub fn hash_into(&self, hash: &mut DefaultHasher) {
        self.life.incarnation.hash(hash);
        self.program.hash_into(hash);
        self.caller.hash_into(hash);
        (self.checkpoints, self.newest_number, &self.begins).hash(hash);
        if let Some(events) = self.engine.protocol().inner.events() {
            (events.recorded(), events.stable(), events.counts()).hash(hash);
        }
        hash_words(hash, &(&self.tally, &self.taking, &self.newest));
        match &self.activity {
            // The checkpoint follows from the state of the program.
            Activity::Saving(_) => hash.write_u8(0),
            activity => hash_words(hash, activity),
        }
        hash_words(hash, &self.engine.inside());
    }
}

fn moved_or_idle(moved: bool) -> Stepped {
    match moved {
        true => Stepped::Moved,
        false => Stepped::Idle,
    }
}
