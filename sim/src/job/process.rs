//! One life of a rank at work: its program on the real engine.

use super::caller::Caller;
use super::commitments::SimCommitments;
use super::stage::Stage;
use crate::checkpoints::Checkpoint;
use crate::happening::{Happening, Life};
use crate::mortal::Mortal;
use crate::planted::Planted;
use crate::program::{Answer, Call, Program};
use crate::recollect::{Saved, Tally};
use refrain_rank::protocol::{SharedEvents, Watch};
use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::engine::{Engine, EngineError, Horizon};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// What was printed waits for its events, and they are to be committed for it.
#[derive(Debug, Default)]
pub struct Printing {
    wanted: Rc<Cell<u64>>,
}

impl Watch for Printing {
    fn wanted(&self) -> u64 {
        self.wanted.get()
    }
}

/// The events of a simulated rank.
pub type SimEvents = SharedEvents<SimCommitments, Printing>;

/// What a program does now.
#[derive(Debug)]
enum Doing {
    /// It computes, and calls next.
    Computing(Answer),
    /// It is in a call.
    Blocked(Call),
    /// It waits for its checkpoint to be stable.
    Checkpointing(u32),
    Finished,
}

/// What a step of a rank came to.
#[derive(Debug)]
pub enum Stepped {
    /// It moved on.
    Moved,
    /// Nothing.
    Idle,
    /// A checkpoint is to be written.
    Takes(Box<Checkpoint<Saved>>),
}

/// See the [module](self).
pub struct RankProcess {
    /// Which life.
    pub life: Life,
    /// Its death.
    pub mortal: Mortal,
    /// Its engine.
    pub engine: Engine,
    program: Program,
    tally: Tally,
    caller: Caller,
    doing: Doing,
    events: SimEvents,
    /// Words on their way to people, each with the events before it.
    prints: VecDeque<(u64, u64)>,
    wanted: Rc<Cell<u64>>,
    checkpoints: u32,
    /// Of the checkpoint that is being written; of the newest that is stable.
    taking: Option<Horizon>,
    newest: Option<Horizon>,
    stage: Stage,
    planted: Option<Planted>,
    /// What the logs begin with, by receiver.
    begins: Vec<Ssn>,
    spills: bool,
    /// Steps that it still stands still.
    pub pause_steps: u64,
    /// Steps that it still has, once it was replaced.
    steps_left: Option<u64>,
}

impl core::fmt::Debug for RankProcess {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RankProcess")
            .field("life", &self.life)
            .field("doing", &self.doing)
            .finish_non_exhaustive()
    }
}

/// What a life is made of.
pub struct Parts {
    pub life: Life,
    pub mortal: Mortal,
    pub engine: Engine,
    pub program: Program,
    pub events: SimEvents,
    pub stage: Stage,
    pub planted: Option<Planted>,
    pub ranks: u32,
    pub spills: bool,
}

impl RankProcess {
    /// A program that begins.
    pub fn new(parts: Parts) -> Self {
        let wanted = Rc::clone(&parts.events.borrow().watch().wanted);
        Self {
            life: parts.life,
            mortal: parts.mortal,
            engine: parts.engine,
            program: parts.program,
            tally: Tally::new(parts.ranks),
            caller: Caller::default(),
            doing: Doing::Computing(Answer::Begin),
            events: parts.events,
            prints: VecDeque::new(),
            wanted,
            checkpoints: 0,
            taking: None,
            newest: None,
            stage: parts.stage,
            planted: parts.planted,
            begins: vec![Ssn(0); parts.ranks as usize],
            spills: parts.spills,
            pause_steps: 0,
            steps_left: None,
        }
    }

    /// It was replaced, and does not know: so many steps more.
    pub fn doom(&mut self, steps: u64) {
        self.steps_left = Some(steps);
        // Nobody reads any more what it prints.
        self.prints.clear();
    }

    /// Whether its program is over.
    pub fn is_finished(&self) -> bool {
        matches!(self.doing, Doing::Finished)
    }

    /// Whether anything that would leave waits: emissions, output.
    pub fn holds_back(&self) -> bool {
        self.engine.awaits_commit() || !self.prints.is_empty()
    }

    /// What it does, for people.
    pub fn explain(&self) -> String {
        let gate = self.engine.explain_gate().unwrap_or_default();
        let stall = self.engine.stall();
        format!("{:?}; {gate}; stall: {stall:?}", self.doing)
    }

    /// What its program finds wrong with what it was told.
    pub fn complaint(&self) -> Option<&str> {
        self.program.complaint()
    }

    /// The state of its program.
    pub fn state(&self) -> u64 {
        self.program.state()
    }

    /// Goes on by one call, or by one look after what it waits for.
    ///
    /// # Errors
    /// Those of the engine: there should be none.
    pub fn step(&mut self) -> Result<Stepped, EngineError> {
        if let Some(left) = &mut self.steps_left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.mortal.kill();
                return Ok(Stepped::Moved);
            }
        }
        let doing = core::mem::replace(&mut self.doing, Doing::Finished);
        let stepped = match doing {
            Doing::Computing(answer) => self.call(&answer)?,
            Doing::Blocked(call) => {
                let moved = self.engine.progress()?;
                match self.caller.ask(&mut self.engine, &call) {
                    Some(answer) => self.answered(answer),
                    None => {
                        self.doing = Doing::Blocked(call);
                        moved_or_idle(moved)
                    }
                }
            }
            still => {
                self.doing = still;
                moved_or_idle(self.engine.progress()?)
            }
        };
        self.print();
        self.tell_freed();
        Ok(stepped)
    }

    fn call(&mut self, answer: &Answer) -> Result<Stepped, EngineError> {
        let call = self.program.next(answer);
        let is_operation = !matches!(call, Call::Print(_) | Call::Checkpoint | Call::Finish);
        let clock = Clock(self.engine.now().0 + u64::from(is_operation));
        self.stage.tell(&Happening::Called(self.life, clock, &call));
        self.tally.called(&call);
        match call {
            Call::Print(word) => {
                let (recorded, _) = self.events.borrow().progress();
                if self.steps_left.is_none() {
                    self.prints.push_back((word, recorded));
                }
                self.wanted.set(recorded);
                Ok(self.answered(Answer::Done))
            }
            Call::Checkpoint => Ok(self.take_checkpoint()),
            Call::Finish => {
                self.doing = Doing::Finished;
                Ok(Stepped::Moved)
            }
            call => match self.caller.begin(&mut self.engine, &call)? {
                Some(answer) => Ok(self.answered(answer)),
                None => {
                    self.doing = Doing::Blocked(call);
                    Ok(Stepped::Moved)
                }
            },
        }
    }

    fn answered(&mut self, answer: Answer) -> Stepped {
        let clock = self.engine.now();
        self.tally.answered(&answer);
        if self.planted == Some(Planted::FreedWhenReceived) {
            self.engine.publish_horizon();
        }
        // The dead are told nothing.
        if !self.mortal.is_dead() {
            self.stage
                .tell(&Happening::Answered(self.life, clock, &answer));
        }
        self.doing = Doing::Computing(answer);
        Stepped::Moved
    }

    fn take_checkpoint(&mut self) -> Stepped {
        self.checkpoints += 1;
        let (number, clock) = (self.checkpoints, self.engine.now());
        self.stage.tell(&Happening::CheckpointTaken {
            life: self.life,
            number,
            clock,
        });
        let horizon = self.engine.horizon();
        if self.planted == Some(Planted::FreedBeforeStable) {
            self.engine.publish(&horizon);
        }
        self.taking = Some(horizon);
        self.doing = Doing::Checkpointing(number);
        Stepped::Takes(Box::new(Checkpoint {
            number,
            clock,
            contents: self.tally.save(&self.program, clock),
        }))
    }

    /// Its checkpoint is stable. What the generation before it did not need
    /// becomes free. GC-1, LOG-4
    pub fn checkpoint_is_stable(&mut self, number: u32) {
        if !matches!(self.doing, Doing::Checkpointing(awaited) if awaited == number) {
            return;
        }
        let newest = self.taking.take();
        let before = core::mem::replace(&mut self.newest, newest);
        let published = match self.planted {
            Some(Planted::OneGeneration) => self.newest.clone(),
            _ => before,
        };
        if let Some(published) = published {
            // This one and the one before it stay.
            let superseded = number.saturating_sub(2);
            let told = Happening::CheckpointsSuperseded(self.life.rank, superseded);
            self.stage.tell(&told);
            self.engine.publish(&published);
        }
        self.answered(Answer::Done);
    }

    /// Lets out what was printed, as far as its events are stable. GATE-1
    fn print(&mut self) {
        let (_, stable) = self.events.borrow().progress();
        let around = self.planted == Some(Planted::OutputAroundGate);
        while let Some((word, before)) = self.prints.front().copied() {
            if before > stable && !around {
                break;
            }
            self.prints.pop_front();
            let (stage, life) = (&self.stage, self.life);
            self.mortal.act(|| stage.tell(&Happening::Seen(life, word)));
        }
    }

    fn tell_freed(&mut self) {
        for peer in 0..self.begins.len() {
            let receiver = Rank(peer as u32);
            if receiver == self.life.rank {
                continue;
            }
            // Memory is given back by whole chunks: a horizon says more. What is
            // not in memory any more may be on disk.
            let horizon = self.engine.log_horizon(receiver);
            let first = match self.spills {
                true => horizon,
                false => horizon.max(self.engine.log_begins(receiver)),
            };
            if first > self.begins[peer] {
                self.begins[peer] = first;
                self.stage.tell(&Happening::Freed {
                    sender: self.life.rank,
                    receiver,
                    first,
                });
            }
        }
    }
}

fn moved_or_idle(moved: bool) -> Stepped {
    match moved {
        true => Stepped::Moved,
        false => Stepped::Idle,
    }
}
