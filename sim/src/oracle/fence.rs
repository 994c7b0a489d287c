//! No rank that knows of the next life hears a life that was replaced, and its output is
//! not seen. FENCE-1
//!
//! What it still hears itself does no harm: it cannot pass it on.

use super::rule::{Oracle, Witness};
use crate::happening::{Happening, Life};
use refrain_ring::Incarnation;

/// FENCE-1; see the [module](self).
#[derive(Debug)]
pub struct Fence {
    /// Of each rank the latest life that began.
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
        // What a replaced life hears does no harm.
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
                "people see {word} of {life:?}, though it was replaced"
            )),
            _ => Ok(()),
        }
    }
}
