//! What must be true of a job, whatever fails: looked at with each
//! [`Happening`], at crashes and at the end.
//!
//! An oracle states its rule by itself, from what is seen of a job, and never
//! asks the code under test whether it kept the rule. What is not to be seen from
//! outside (what loggers hold, who was told of whom) it asks of a [`Witness`].
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
#[cfg(test)]
mod tests;

use crate::happening::{Breach, Happening, Life};
use crate::program::without_garbage;
use crate::world::explored::hash_words;
use core::ops::{Index, IndexMut};
use refrain_ring::{Clock, Incarnation, Rank, Ssn};
use std::hash::{DefaultHasher, Hash};

/// What an oracle may ask of the job. Answers are the job's, not the engine's:
/// they come from the simulated loggers, the launcher and the plan.
pub trait Witness {
    /// The life of this rank that is there; `None` between two.
    fn alive(&self, rank: Rank) -> Option<Incarnation>;

    /// Whether it is this life that is there: it was not replaced.
    fn is_present(&self, life: Life) -> bool {
        self.alive(life.rank) == Some(life.incarnation)
    }

    /// Up to this clock all determinants of a rank are held by event loggers in
    /// such a way that the failures of which the job promises to survive them
    /// cannot take them. `None`: not one is. EL-1
    fn stable_clock(&self, rank: Rank) -> Option<Clock>;

    /// Of which incarnation of `of` this peer was told, at least.
    fn told_of(&self, peer: Rank, of: Rank) -> Incarnation;

    /// Up to this clock loggers may give up the determinants of a rank. GC-1
    fn forgotten_clock(&self, rank: Rank) -> Option<Clock>;
}

/// A rule, and all that has to be remembered to judge by it.
pub trait Oracle {
    /// Its name in a [`Breach`].
    fn name(&self) -> &'static str;

    /// Something has happened.
    ///
    /// # Errors
    /// When it must not.
    fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), String>;

    /// The job is over: nothing moves any more.
    ///
    /// # Errors
    /// When something is missing.
    fn at_end(&mut self, _world: &dyn Witness) -> Result<(), String> {
        Ok(())
    }
}

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

fn breach(oracle: &'static str, what: impl Into<String>) -> Breach {
    Breach {
        oracle,
        what: what.into(),
    }
}

/// Which message of its channel a sequence number is, as an index.
fn index(ssn: Ssn) -> usize {
    usize::try_from(ssn.0).unwrap_or(usize::MAX)
}

/// Tells one payload from another, whatever garbage is in it.
pub(crate) fn digest(payload: &[u8]) -> u64 {
    let payload = &without_garbage(payload);
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = payload.as_chunks::<8>();
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(PRIME);
    let hash = words.iter().fold(payload.len() as u64, |hash, word| {
        mix(hash, u64::from_le_bytes(*word))
    });
    let bytes = rest.iter();
    let hash = bytes.fold(hash, |hash, byte| mix(hash, u64::from(*byte)));
    hash ^ hash >> 29
}

/// One `T` for each (from, to).
#[derive(Clone, Debug)]
pub(super) struct Pairs<T> {
    ranks: usize,
    places: Vec<T>,
}

impl<T: Default> Pairs<T> {
    pub fn new(ranks: u32) -> Self {
        let ranks = ranks as usize;
        Self {
            ranks,
            places: (0..ranks * ranks).map(|_| T::default()).collect(),
        }
    }

    /// All that come from this rank, by the other.
    pub fn row(&mut self, from: Rank) -> &mut [T] {
        &mut self.places[from.index() * self.ranks..][..self.ranks]
    }
}

impl<T> Index<(Rank, Rank)> for Pairs<T> {
    type Output = T;

    fn index(&self, (from, to): (Rank, Rank)) -> &T {
        &self.places[from.index() * self.ranks + to.index()]
    }
}

impl<T> IndexMut<(Rank, Rank)> for Pairs<T> {
    fn index_mut(&mut self, (from, to): (Rank, Rank)) -> &mut T {
        &mut self.places[from.index() * self.ranks + to.index()]
    }
}
