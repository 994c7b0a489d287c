//! Receives every happening of a job and passes it to the oracles and the trace. Also: facts that
//! oracles may ask and cannot observe, and the totals of a run.

use crate::happening::{Breach, Happening};
use crate::held::HeldLedger;
use crate::loggers::Loggers;
use crate::oracle::Oracles;
use crate::oracle::rule::Witness;
use crate::program::Answer;
use refrain_logging::determinant::Determinant;
use refrain_ring::{Clock, Incarnation, Rank};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

/// See the [module](self).
pub struct Stage {
    /// The oracles; they see everything that happens.
    pub oracles: RefCell<Oracles>,
    /// What the oracles may ask.
    pub facts: Facts,
    counts: RefCell<Counts>,
    breach: RefCell<Option<Breach>>,
    digest: Cell<u64>,
    step: Cell<u64>,
    /// Whether all happenings are printed.
    is_loud: bool,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").finish_non_exhaustive()
    }
}

impl Stage {
    /// The stage of a new job. `is_loud`: all happenings are printed.
    pub fn new(ranks: u32, (loggers, held): (Loggers, Option<HeldLedger>), is_loud: bool) -> Self {
        Self {
            oracles: RefCell::new(Oracles::new(ranks)),
            facts: Facts::new(ranks, loggers, held),
            counts: RefCell::default(),
            breach: RefCell::new(None),
            digest: Cell::new(0xcbf2_9ce4_8422_2325),
            step: Cell::new(0),
            is_loud,
        }
    }

    /// Reports a happening.
    pub fn tell(&self, happening: &Happening<'_>) {
        self.note(happening.fingerprint());
        if self.is_loud {
            println!("{:6} {happening}", self.step.get());
        }
        if self.breach.borrow().is_some() {
            return;
        }
        match happening {
            Happening::Called(..) => self.count(Count::Calls),
            Happening::Posted { .. } => self.count(Count::Frames),
            Happening::Event(_, event) => self.count(kind(event)),
            Happening::CheckpointStable(..) => self.count(Count::Checkpoints),
            Happening::Answered(_, _, Answer::Ended(all)) => {
                let collectives = all.iter().filter(|it| it.collective.is_some()).count();
                let counts = &mut self.counts.borrow_mut();
                counts.add(Count::Collectives, collectives as u64);
            }
            _ => {}
        }
        let seen = self.oracles.borrow_mut().see(happening, &self.facts);
        *self.breach.borrow_mut() = seen.err();
    }

    /// The first violation of a rule.
    pub fn first_breach(&self) -> Option<Breach> {
        self.breach.borrow().clone()
    }

    /// Counts one.
    pub fn count(&self, count: Count) {
        self.counts.borrow_mut().add(count, 1);
    }

    /// Mixes `what` into the digest of the run.
    pub fn note(&self, what: u64) {
        let digest = &self.digest;
        let mixed = (digest.get() ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        digest.set(mixed ^ mixed >> 32);
    }

    /// Sets the number of the current step.
    pub fn set_step(&self, step: u64) {
        self.step.set(step);
    }

    /// The totals of the run so far.
    pub fn totals(&self) -> Totals {
        let mut counts = self.counts.borrow().clone();
        counts.add(Count::Steps, self.step.get());
        Totals {
            counts,
            digest: self.digest.get(),
        }
    }
}

/// Facts that the job keeps and the oracles ask.
#[derive(Debug)]
pub struct Facts {
    loggers: Loggers,
    /// Present where ranks hold events.
    held: Option<HeldLedger>,
    /// Whether messages carry events.
    pub carries: Cell<bool>,
    /// By rank: the life that runs.
    pub alive: RefCell<Vec<Option<Incarnation>>>,
    /// By peer: the latest life of each rank that the peer knows of.
    told: RefCell<Vec<Vec<Incarnation>>>,
    /// By rank: the clock up to which an explorer has made events stable.
    pub stable: RefCell<Vec<Option<Clock>>>,
}

impl Facts {
    /// The facts of a new job.
    pub fn new(ranks: u32, loggers: Loggers, held: Option<HeldLedger>) -> Self {
        let first = vec![Incarnation(0); ranks as usize];
        Self {
            loggers,
            held,
            carries: Cell::new(false),
            alive: RefCell::new(vec![None; ranks as usize]),
            told: RefCell::new(vec![first; ranks as usize]),
            stable: RefCell::new(vec![None; ranks as usize]),
        }
    }

    /// A peer knows of a life of a rank: from now on it takes no frames of earlier lives.
    pub fn tell(&self, peer: Rank, of: Rank, life: Incarnation) {
        let told = &mut self.told.borrow_mut()[peer.index()][of.index()];
        *told = life.max(*told);
    }
}

impl Witness for Facts {
    fn alive(&self, rank: Rank) -> Option<Incarnation> {
        self.alive.borrow()[rank.index()]
    }

    fn stable_clock(&self, rank: Rank) -> Option<Clock> {
        let explored = self.stable.borrow()[rank.index()];
        explored.or_else(|| match &self.held {
            Some(held) => held.reach(rank),
            None => self.loggers.reach(rank),
        })
    }

    fn may_carry(&self, from: Rank, to: Rank, clock: Clock) -> bool {
        let held = self.held.as_ref().filter(|_| self.carries.get());
        held.is_some_and(|held| held.may_carry(from, to, clock))
    }

    fn told_of(&self, peer: Rank, of: Rank) -> Incarnation {
        self.told.borrow()[peer.index()][of.index()]
    }

    fn forgotten_clock(&self, rank: Rank) -> Option<Clock> {
        match &self.held {
            Some(held) => held.trimmed_clock(rank),
            None => self.loggers.trimmed(rank),
        }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Count {
    /// Steps of jobs.
    Steps,
    /// Calls of programs.
    Calls,
    /// Frames that were posted.
    Frames,
    /// Collectives that ended at a member.
    Collectives,
    /// Events: matches.
    Matches,
    /// Events: probes that found a message.
    Probes,
    /// Events: completions.
    Completions,
    /// Events: receives that were cancelled.
    Cancels,
    /// Events: numbers from outside.
    Numbers,
    /// Events: bytes from outside.
    Bytes,
    /// Events: tests and probes that found nothing.
    Nothings,
    /// Stable checkpoints.
    Checkpoints,
    /// Later lives that collected everything and were replayed in the reference.
    Recollections,
    /// Later lives whose programs were replayed on an engine.
    LaterLives,
    /// Jobs that stopped because a rank noticed lost records of its earlier lives.
    Stops,
    /// Ranks killed, or suspected and then replaced.
    RankKills,
    /// Event loggers killed, or their hosts powered off.
    LoggerKills,
    /// Event loggers that lost all their data.
    Forgotten,
    /// Kills of the checkpoint store, or power losses of its host.
    CheckpointKills,
    /// Living ranks suspected.
    Suspicions,
    /// Pauses of processes.
    Pauses,
    /// Broken connections.
    Disconnections,
    /// Disks that were full or slow.
    DiskFaults,
    /// Ranks whose acknowledged events loggers lost.
    Losses,
}

/// Counts of one run or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Count, u64>);

impl Counts {
    /// Adds `more` to a count.
    pub fn add(&mut self, count: Count, more: u64) {
        *self.0.entry(count).or_default() += more;
    }

    /// The value of a count.
    pub fn of(&self, count: Count) -> u64 {
        self.0.get(&count).copied().unwrap_or_default()
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        other
            .0
            .iter()
            .for_each(|(count, more)| self.add(*count, *more));
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut each = self.0.iter();
        each.try_for_each(|(count, number)| write!(f, "\n{number:12} {count:?}"))
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// What was counted.
    pub counts: Counts,
    /// A hash of everything that happened.
    pub digest: u64,
}

/// A violated rule, with its step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {step}: {breach}")]
pub struct Failure {
    /// The step at which the violation was found.
    pub step: u64,
    /// The violation.
    pub breach: Breach,
}

fn kind(event: &Determinant) -> Count {
    match event {
        Determinant::Match(_) => Count::Matches,
        Determinant::Probe { .. } => Count::Probes,
        Determinant::Completion { .. } => Count::Completions,
        Determinant::Cancelled { .. } => Count::Cancels,
        Determinant::Number { .. } => Count::Numbers,
        Determinant::Bytes { .. } => Count::Bytes,
        Determinant::Nothing { .. } => Count::Nothings,
    }
}
