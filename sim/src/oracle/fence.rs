//! A rank that knows of the next life takes no frames of the replaced life, and output of the
//! replaced life is not shown. FENCE-1
//!
//! Frames that a replaced life takes are harmless: it cannot pass them on.

use super::rule::{Oracle, Witness};
use crate::happening::{Happening, Life};
use refrain_ring::Incarnation;

/// FENCE-1; see the [module](self).
#[derive(Debug)]
pub struct Fence {
    /// By rank: the latest life that has begun.
    latest: Vec<Option<Incarnation>>,
}

impl Fence {
    /// The oracle of a job with `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            latest: vec![None; ranks as usize],
        }
    }

    fn began(&mut self, life: Life) -> Result<(), String> {
        let latest = &mut self.latest[life.rank.index()];
        // A life that died before its program began was not observed.
        if Some(life.incarnation) <= *latest {
            return Err(format!("{life:?} begins after {latest:?}"));
        }
        *latest = Some(life.incarnation);
        Ok(())
    }

    fn is_latest(&self, life: Life) -> bool {
        self.latest[life.rank.index()] == Some(life.incarnation)
    }

    fn heard(&self, from: Life, to: Life, world: &dyn Witness) -> Result<(), String> {
        // Frames that a replaced life takes are harmless.
        if !self.is_latest(to) {
            return Ok(());
        }
        let told = world.told_of(to.rank, from.rank);
        if from.incarnation < told {
            return Err(format!(
                "{to:?} receives from {from:?}, though it knows of incarnation {told}"
            ));
        }
        Ok(())
    }
}

impl Oracle for Fence {
    fn name(&self) -> &'static str {
        "fence"
    }

    fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), String> {
        match happening {
            Happening::Began(life) => self.began(*life),
            Happening::Heard { from, to } => self.heard(*from, *to, world),
            Happening::Seen(life, word) if !self.is_latest(*life) => Err(format!(
                "the output has {word} of {life:?}, though it was replaced"
            )),
            _ => Ok(()),
        }
    }
}
