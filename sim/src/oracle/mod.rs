//! What must be true of a job, whatever fails: looked at with each
//! [`Happening`], at crashes and at the end.
//!
//! An oracle states its rule by itself, from what is seen of a job, and never
//! asks the code under test whether it kept the rule. What is not to be seen from
//! outside (what loggers hold, which lives ranks know of) it asks of a
//! [`Witness`](rule::Witness).
//!
//! | oracle | rule |
//! |---|---|
//! | [`gate`] | nothing leaves before what happened before it is stable (GATE-1) |
//! | [`channel`] | frames and messages: none lost, twice, torn, out of order; all programs end |
//! | [`fence`] | nothing of a life that was replaced is heard (FENCE-1) |
//! | [`log`] | nothing is freed that a restart asks for (LOG-4, GC-1); all else can be read back (LOG-1, LOG-2) |
//! | [`order`] | clocks never go back |
//! | [`orphan`] | what others have seen of a dead rank is made again (REC-5, REC-8) |
//! | [`outcome`] | sends, prints and states are those of the reference |
//!
//! Each takes amortised constant time (or the logarithm of what is under way)
//! for one happening.

pub mod channel;
pub mod fence;
pub mod gate;
pub mod log;
pub mod order;
pub mod orphan;
pub mod outcome;
pub mod rule;
#[cfg(test)]
mod tests;

use crate::explorer::hash_words;
use crate::happening::{Breach, Happening};
use refrain_ring::Rank;
use rule::{Oracle, Witness, breach};
use std::hash::{DefaultHasher, Hash};

/// All oracles. Fields are open to the job, which tells some of them more than
/// happenings say.
#[derive(Debug)]
pub struct Oracles {
    /// GATE-1.
    pub gate: gate::Gate,
    /// Frames and messages; the end.
    pub channel: channel::Channels,
    /// FENCE-1.
    pub fence: fence::Fence,
    /// LOG-1, LOG-2, LOG-4, GC-1.
    pub log: log::Logs,
    /// Clocks.
    pub order: order::Order,
    /// What others have seen of each rank.
    pub orphan: orphan::Orphans,
    /// What programs came to.
    pub outcome: outcome::Outcomes,
}

impl Oracles {
    /// Of a job with `ranks` ranks, before anything happens.
    pub fn new(ranks: u32) -> Self {
        Self {
            gate: gate::Gate::new(ranks),
            channel: channel::Channels::new(ranks),
            fence: fence::Fence::new(ranks),
            log: log::Logs::new(ranks),
            order: order::Order::new(ranks),
            orphan: orphan::Orphans::new(ranks),
            outcome: outcome::Outcomes::new(ranks),
        }
    }

    /// Hashes all that they remember, but for what cannot matter any more: what a dead
    /// life was told, and messages that were made and never left. What the end of the job
    /// remembers, the channels do.
    pub fn hash_into(&self, is_dead: impl Fn(Rank) -> bool, hash: &mut DefaultHasher) {
        hash_words(hash, &(&self.gate, &self.fence, &self.order));
        self.channel.hash_into(hash);
        self.log.hash_into(hash);
        for sent in &self.orphan.sent.places {
            sent.made[..sent.posted].hash(hash);
        }
        let ranks = self.orphan.ranks.iter().zip(&self.outcome.ranks);
        for (rank, (orphan, outcome)) in (0..).map(Rank).zip(ranks) {
            match is_dead(rank) {
                true => orphan.seen.hash(hash),
                false => hash_words(hash, &(orphan, outcome)),
            }
        }
    }

    fn each(
        &mut self,
        mut ask: impl FnMut(&mut dyn Oracle) -> Result<(), String>,
    ) -> Result<(), Breach> {
        let all: [&mut dyn Oracle; 7] = [
            &mut self.order,
            &mut self.gate,
            &mut self.channel,
            &mut self.fence,
            &mut self.log,
            &mut self.orphan,
            &mut self.outcome,
        ];
        for oracle in all {
            ask(oracle).map_err(|what| breach(oracle.name(), what))?;
        }
        Ok(())
    }

    /// Something has happened.
    ///
    /// # Errors
    /// When it must not.
    pub fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), Breach> {
        self.each(|oracle| oracle.see(happening, world))
    }

    /// The job is over: nothing moves any more.
    ///
    /// # Errors
    /// When something is missing.
    pub fn at_end(&mut self, world: &dyn Witness) -> Result<(), Breach> {
        self.each(|oracle| oracle.at_end(world))
    }
}
