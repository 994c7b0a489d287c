//! No rank that knows of the next life hears a life that was replaced, and its output is
//! not seen. FENCE-1
//!
//! What it still hears itself does no harm: it cannot pass it on.

use super::{Oracle, Witness, breach};
use crate::happening::{Breach, Happening, Life};
use refrain_ring::Incarnation;

const NAME: &str = "fence";

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

    fn began(&mut self, life: Life) -> Result<(), Breach> {
        let latest = &mut self.latest[life.rank.index()];
        // One that died before its program began was not seen.
        if Some(life.incarnation) <= *latest {
            let what = format!("{life:?} begins after {latest:?}");
            return Err(breach(NAME, what));
        }
        *latest = Some(life.incarnation);
        Ok(())
    }

    fn is_latest(&self, life: Life) -> bool {
        self.latest[life.rank.index()] == Some(life.incarnation)
    }

    fn heard(&self, from: Life, to: Life, world: &dyn Witness) -> Result<(), Breach> {
        // What a replaced life hears does no harm.
        if !self.is_latest(to) {
            return Ok(());
        }
        let told = world.told_of(to.rank, from.rank);
        if from.incarnation < told {
            return Err(breach(
                NAME,
                format!(
                    "step {}: {to:?} hears {from:?}, though it was told of incarnation {told}",
                    world.now_step()
                ),
            ));
        }
        Ok(())
    }
}

impl Oracle for Fence {
    fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), Breach> {
        match happening {
            Happening::Began(life) => self.began(*life),
            Happening::Heard { from, to } => self.heard(*from, *to, world),
            Happening::Seen(life, word) if !self.is_latest(*life) => Err(breach(
                NAME,
                format!("people see {word} of {life:?}, though it was replaced"),
            )),
            _ => Ok(()),
        }
    }
}
