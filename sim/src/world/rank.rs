//! One life of a rank: its program on the real engine; and the slot of a rank in the job: a life,
//! or the note of a dead one.

use super::assembly::LifeBeginning;
use super::calls::Caller;
use super::events::{EventStore, SimCommitments, SimOutput, Watched};
use super::log::Saving;
use super::recovery::Collecting;
use super::sets::Word;
use super::stage::Stage;
use crate::checkpoints::Checkpoint;
use crate::crash_point::CrashPoint;
use crate::explorer::hash_words;
use crate::happening::{Breach, Happening, Life};
use crate::planted::Planted;
use crate::program::{Answer, Call, Program, litter};
use crate::saved::{Beginning as ProgramBeginning, Saved, Tally};
use refrain_logging::held::Holdings;
use refrain_logging::pessimist::Pessimist;
use refrain_logging::rounds::Order;
use refrain_logging::store::faulty::MemoryDisk;
use refrain_rank::collective::{Covers, Whole};
use refrain_rank::protocol::Logging;
use refrain_rank::round::{Fate, SetRounds};
use refrain_ring::{Clock, Incarnation, Rank, Region, Ssn};
use refrain_transport::engine::{Beginning, Engine, EngineError, Horizon};
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

    /// Takes a checkpoint, unless output waits, or messages are still on their way into the log, or
    /// results of neighbours to this rank.
    fn take_checkpoint(&mut self) {
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
    fn save(&mut self, mut saving: Box<Saving>, moved: bool) -> Stepped {
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

    fn ask_for_round(&mut self) -> Stepped {
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

    fn enter_round(&mut self, left: u32, moved: bool) -> Stepped {
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

/// A life that connects to its event loggers.
#[derive(Debug)]
pub struct Joining {
    /// The life.
    pub life: Life,
    /// The death of the process.
    pub crash_point: CrashPoint,
    /// Where its events become stable.
    pub events: EventStore,
}

/// See the [module](self).
#[derive(Debug)]
pub enum RankSlot {
    /// The first life, before its program begins.
    Starting(Box<Joining>),
    /// A running life.
    Living(Box<RankProcess>),
    /// Dead, until the launcher starts its next life.
    Dead(Life),
    /// A later life that collects its checkpoint, records and messages.
    Returning(Box<Collecting>),
}

impl RankSlot {
    /// The life in this slot.
    pub fn life(&self) -> Life {
        match self {
            Self::Starting(joining) => joining.life,
            Self::Returning(collecting) => collecting.joining.life,
            Self::Living(process) => process.life,
            Self::Dead(life) => *life,
        }
    }

    /// The crash point of the life, unless it is dead.
    pub fn crash_point(&self) -> Option<&CrashPoint> {
        match self {
            Self::Starting(joining) => Some(&joining.crash_point),
            Self::Returning(collecting) => Some(&collecting.joining.crash_point),
            Self::Living(process) => Some(&process.crash_point),
            Self::Dead(_) => None,
        }
    }

    /// Whether it has nothing left to do.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Living(process) => process.is_finished() && !process.holds_back(),
            Self::Starting(_) | Self::Returning(_) | Self::Dead(_) => false,
        }
    }
}
