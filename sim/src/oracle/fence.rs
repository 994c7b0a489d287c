//! No rank that knows of the next life takes frames of a replaced life, and output of that life
//! is not shown. FENCE-1
//!
//! Frames that a replaced life takes do no harm: it cannot pass them on.

use super::rule::{Oracle, Witness};
use crate::happening::{Happening, Life};
use refrain_ring::Incarnation;

/// FENCE-1; see the [module](self).
#[derive(Debug)]
pub struct Fence {
    /// By rank: the latest life that began.
    latest: Vec<Option<Incarnation>>,
}

impl Fence {
    /// Of a job with `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            latest: vec![None; ranks as usize],
        }
    }

    fn began(&mut self, life: Life) -> Result<(), String> {
        let latest = &mut self.latest[life.rank.index()];
        // One that died before its program began was not seen.
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
        // Frames that a replaced life takes do no harm.
        if !self.is_latest(to) {
            return Ok(());
        }
        let told = world.told_of(to.rank, from.rank);
        if from.incarnation < told {
            return Err(format!(
                "{to:?} hears {from:?}, though it was told of incarnation {told}"
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
