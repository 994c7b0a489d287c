//! What oracles may know of a job that is not seen from outside.

use crate::loggers::Loggers;
use crate::oracle::Witness;
use refrain_ring::{Clock, Incarnation, Rank};
use std::cell::{Cell, RefCell};

/// Kept by the job, asked by the oracles.
#[derive(Debug)]
pub struct Facts {
    step: Cell<u64>,
    loggers: Loggers,
    alive: RefCell<Vec<Option<Incarnation>>>,
    /// By peer: of which life of each rank it was told.
    told: RefCell<Vec<Vec<Incarnation>>>,
}

impl Facts {
    /// Of a job that begins.
    pub fn new(ranks: u32, loggers: Loggers) -> Self {
        let first = vec![Incarnation(0); ranks as usize];
        Self {
            step: Cell::new(0),
            loggers,
            alive: RefCell::new(vec![None; ranks as usize]),
            told: RefCell::new(vec![first; ranks as usize]),
        }
    }

    /// The job is at this step.
    pub fn set_step(&self, step: u64) {
        self.step.set(step);
    }

    /// Which life of a rank is there.
    pub fn set_alive(&self, rank: Rank, life: Option<Incarnation>) {
        self.alive.borrow_mut()[rank.index()] = life;
    }

    /// A peer was told of a life of a rank: it hears nothing of earlier ones.
    pub fn tell(&self, peer: Rank, of: Rank, life: Incarnation) {
        self.told.borrow_mut()[peer.index()][of.index()] = life;
    }
}

impl Witness for Facts {
    fn now_step(&self) -> u64 {
        self.step.get()
    }

    fn alive(&self, rank: Rank) -> Option<Incarnation> {
        self.alive.borrow()[rank.index()]
    }

    fn stable_clock(&self, rank: Rank) -> Option<Clock> {
        self.loggers.reach(rank)
    }

    fn told_of(&self, peer: Rank, of: Rank) -> Incarnation {
        self.told.borrow()[peer.index()][of.index()]
    }

    fn must_finish(&self) -> bool {
        true
    }
}
