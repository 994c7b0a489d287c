//! The rules that a job must follow under all faults, checked at each [`Happening`], at crashes and
//! at the end.
//!
//! An oracle states its rule independently, from observed happenings, and never asks the code under
//! test. What it cannot observe (what loggers hold, which lives ranks know of) it asks a
//! [`Witness`].
//!
//! | oracle | rule |
//! |---|---|
//! | [`gate`] | no emission leaves before the events before it are stable (GATE-1) |
//! | [`channel`] | frames and messages: none is lost, duplicated, torn or out of order; all programs end |
//! | [`collective`] | results of collectives; steps are sent again as they were (COLL-1 to COLL-3, STREAM-1 to STREAM-5) |
//! | [`fence`] | no frames of a replaced life are taken (FENCE-1) |
//! | [`log`] | nothing is freed that a restart may ask for (LOG-4, GC-1); it can be read back (LOG-1, LOG-2) |
//! | [`order`] | clocks never decrease |
//! | [`orphan`] | what others have seen of a dead rank is emitted again (REC-5, REC-8) |
//! | [`outcome`] | messages, printed words and states are those of the reference |
//!
//! Each oracle takes amortised constant time (or logarithmic in the number of open messages) for
//! each happening.

pub mod channel;
pub mod collective;
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
use refrain_ring::{Rank, Ssn};
use rule::{Oracle, Witness, breach};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash};

/// All oracles. The job also calls some of them directly.
#[derive(Debug)]
pub struct Oracles {
    /// GATE-1.
    pub gate: gate::Gate,
    /// Frames and messages; the end of the job.
    pub channel: channel::Channels,
    /// Collectives and their steps.
    pub collective: collective::Collectives,
    /// FENCE-1.
    pub fence: fence::Fence,
    /// LOG-1, LOG-2, LOG-4, GC-1.
    pub log: log::Logs,
    /// Clocks.
    pub order: order::Order,
    /// Emissions of each rank that others have seen.
    pub orphan: orphan::Orphans,
    /// Results of programs.
    pub outcome: outcome::Outcomes,
}

impl Oracles {
    /// The oracles of a new job with `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            gate: gate::Gate::new(ranks),
            channel: channel::Channels::new(ranks),
            collective: collective::Collectives::default(),
            fence: fence::Fence::new(ranks),
            log: log::Logs::new(ranks),
            order: order::Order::new(ranks),
            orphan: orphan::Orphans::new(ranks),
            outcome: outcome::Outcomes::new(ranks),
        }
    }

    /// Puts ranks into correlated sets: between their members no messages are kept. SET-1
    pub fn put_into_sets(&mut self, set_of_rank: &[u32]) {
        self.log.set_of_rank = set_of_rank.to_vec();
        self.channel.set_of_rank = set_of_rank.to_vec();
    }

    /// Hashes the state of all oracles, without what no longer matters: answers to dead lives, and
    /// messages that were sent and never left. The state for the end of the job is in the channels.
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

    /// Judges the messages that the real readers returned from a log, from `from` of the program's
    /// stream on.
    ///
    /// # Errors
    /// When a message is missing or differs. LOG-1, LOG-2, LOG-5
    pub fn read_back(
        &self,
        (sender, receiver): (Rank, Rank),
        from: Ssn,
        messages: &BTreeMap<Ssn, Vec<u8>>,
    ) -> Result<(), Breach> {
        self.log.read_back(sender, receiver, from, messages)?;
        // Of collectives whose results are kept, the results count. WHOLE-4
        let is_needed = |id| !self.channel.leaves_out && self.log.may_need(receiver, id);
        let judged = self
            .collective
            .read_back((sender, receiver), is_needed, messages);
        judged.map_err(|what| breach(self.log.name(), what))
    }

    fn each(
        &mut self,
        mut ask: impl FnMut(&mut dyn Oracle) -> Result<(), String>,
    ) -> Result<(), Breach> {
        let all: [&mut dyn Oracle; 8] = [
            &mut self.order,
            &mut self.gate,
            &mut self.channel,
            &mut self.collective,
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

    /// Reports a happening.
    ///
    /// # Errors
    /// The violation of a rule, if the happening is one.
    pub fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), Breach> {
        self.each(|oracle| oracle.see(happening, world))
    }

    /// Reports the end of the job: nothing moves any more.
    ///
    /// # Errors
    /// When something is missing.
    pub fn at_end(&mut self, world: &dyn Witness) -> Result<(), Breach> {
        self.each(|oracle| oracle.at_end(world))
    }
}
