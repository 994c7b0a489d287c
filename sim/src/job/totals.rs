//! What a run came to, and who judges it.

use super::facts::Facts;
use super::{Audience, FaultCounts};
use crate::happening::{Breach, Happening};
use crate::oracle::{Oracle, Oracles};
use std::cell::RefCell;
use std::rc::Rc;

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
            Happening::Event(..) => totals.events += 1,
            Happening::CheckpointStable(..) => totals.checkpoints += 1,
            _ => {}
        }
        self.oracles.borrow_mut().see(happening, &*self.facts)
    }
}
