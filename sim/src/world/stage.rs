//! What happens is reported here: once to the oracles, once to the trace. What oracles may
//! ask of a job that is not seen from outside; what a run came to.

use super::FaultCounts;
use crate::happening::{Breach, Happening};
use crate::loggers::Loggers;
use crate::oracle::{Oracles, Witness};
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_transport::protocol::Event;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// Who sees what happens, and says what must not be.
pub trait Audience {
    /// Sees one thing.
    ///
    /// # Errors
    /// When it must not be.
    fn see(&mut self, happening: &Happening<'_>) -> Result<(), Breach>;
}

/// Clones are the same stage.
#[derive(Clone)]
pub struct Stage {
    shared: Rc<Shared>,
}

struct Shared {
    audience: RefCell<Box<dyn Audience>>,
    breach: RefCell<Option<Breach>>,
    told: Cell<u64>,
    digest: Cell<u64>,
    step: Cell<u64>,
    /// Prints everything.
    is_loud: bool,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("told", &self.shared.told.get())
            .finish_non_exhaustive()
    }
}

impl Stage {
    /// With that audience. `is_loud`: everything is printed as well.
    pub fn new(audience: Box<dyn Audience>, is_loud: bool) -> Self {
        Self {
            shared: Rc::new(Shared {
                audience: RefCell::new(audience),
                breach: RefCell::new(None),
                told: Cell::new(0),
                digest: Cell::new(0xcbf2_9ce4_8422_2325),
                step: Cell::new(0),
                is_loud,
            }),
        }
    }

    /// Something happens.
    pub fn tell(&self, happening: &Happening<'_>) {
        let shared = &self.shared;
        shared.told.set(shared.told.get() + 1);
        self.note(happening.fingerprint());
        if shared.is_loud {
            println!("{:6} {happening}", shared.step.get());
        }
        if shared.breach.borrow().is_some() {
            return;
        }
        if let Err(breach) = shared.audience.borrow_mut().see(happening) {
            self.breach(breach);
        }
    }

    /// Something must not be.
    pub fn breach(&self, breach: Breach) {
        self.shared.breach.borrow_mut().get_or_insert(breach);
    }

    /// The first thing that must not be.
    pub fn first_breach(&self) -> Option<Breach> {
        self.shared.breach.borrow().clone()
    }

    /// Takes something into the digest of the run.
    pub fn note(&self, what: u64) {
        let digest = &self.shared.digest;
        let mixed = (digest.get() ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        digest.set(mixed ^ mixed >> 32);
    }

    /// A hash of everything that happened so far.
    pub fn digest(&self) -> u64 {
        self.shared.digest.get()
    }

    /// How many things have happened.
    pub fn told(&self) -> u64 {
        self.shared.told.get()
    }

    /// The job is at this step.
    pub fn set_step(&self, step: u64) {
        self.shared.step.set(step);
    }
}

/// Kept by the job, asked by the oracles.
#[derive(Debug)]
pub struct Facts {
    loggers: Loggers,
    alive: RefCell<Vec<Option<Incarnation>>>,
    /// By peer: of which life of each rank it was told.
    told: RefCell<Vec<Vec<Incarnation>>>,
    /// By rank: the clock up to which an explorer has called events stable.
    stable: RefCell<Vec<Option<Clock>>>,
}

impl Facts {
    /// Of a job that begins.
    pub fn new(ranks: u32, loggers: Loggers) -> Self {
        let first = vec![Incarnation(0); ranks as usize];
        Self {
            loggers,
            alive: RefCell::new(vec![None; ranks as usize]),
            told: RefCell::new(vec![first; ranks as usize]),
            stable: RefCell::new(vec![None; ranks as usize]),
        }
    }

    /// Which life of a rank is there.
    pub fn set_alive(&self, rank: Rank, life: Option<Incarnation>) {
        self.alive.borrow_mut()[rank.index()] = life;
    }

    /// A peer was told of a life of a rank: it hears nothing of earlier ones.
    pub fn tell(&self, peer: Rank, of: Rank, life: Incarnation) {
        let told = &mut self.told.borrow_mut()[peer.index()][of.index()];
        *told = life.max(*told);
    }

    /// An explorer calls what happened to a rank stable, up to this clock.
    pub fn set_stable(&self, rank: Rank, clock: Clock) {
        self.stable.borrow_mut()[rank.index()] = Some(clock);
    }
}

impl Witness for Facts {
    fn alive(&self, rank: Rank) -> Option<Incarnation> {
        self.alive.borrow()[rank.index()]
    }

    fn stable_clock(&self, rank: Rank) -> Option<Clock> {
        let explored = self.stable.borrow()[rank.index()];
        explored.or_else(|| self.loggers.reach(rank))
    }

    fn told_of(&self, peer: Rank, of: Rank) -> Incarnation {
        self.told.borrow()[peer.index()][of.index()]
    }

    fn forgotten_clock(&self, rank: Rank) -> Option<Clock> {
        self.loggers.trimmed(rank)
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Steps.
    pub steps: u64,
    /// Calls of programs.
    pub calls: u64,
    /// Frames that left.
    pub frames: u64,
    /// Non-deterministic events.
    pub events: u64,
    /// The same by kind: matches, probes, completions, cancels, numbers, bytes, nothing.
    pub kinds: [u64; 7],
    /// Checkpoints that were stable.
    pub checkpoints: u64,
    /// Later lives that collected all they needed, and were checked.
    pub recollections: u64,
    /// Later lives whose programs played again.
    pub lives: u64,
    /// Jobs that ended since a rank noticed that records of its past are lost.
    pub stops: u64,
    /// What went wrong.
    pub faults: FaultCounts,
    /// A hash of everything that happened.
    pub digest: u64,
}

/// A run in which something was that must not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {step}: {breach}")]
pub struct Failure {
    /// When.
    pub step: u64,
    /// What.
    pub breach: Breach,
}

/// The oracles, as an audience.
pub(super) struct Judges {
    pub oracles: Rc<RefCell<Oracles>>,
    pub facts: Rc<Facts>,
    pub totals: Rc<RefCell<Totals>>,
}

impl Audience for Judges {
    fn see(&mut self, happening: &Happening<'_>) -> Result<(), Breach> {
        let totals = &mut *self.totals.borrow_mut();
        match happening {
            Happening::Called(..) => totals.calls += 1,
            Happening::Posted { .. } => totals.frames += 1,
            Happening::Event(_, event) => {
                totals.events += 1;
                totals.kinds[kind(event)] += 1;
            }
            Happening::CheckpointStable(..) => totals.checkpoints += 1,
            _ => {}
        }
        self.oracles.borrow_mut().see(happening, &*self.facts)
    }
}

fn kind(event: &Event<'_>) -> usize {
    match event {
        Event::Match { .. } => 0,
        Event::Probe { .. } => 1,
        Event::Completion { .. } => 2,
        Event::Cancelled { .. } => 3,
        Event::Number { .. } => 4,
        Event::Bytes { .. } => 5,
        Event::Nothing { .. } => 6,
    }
}
