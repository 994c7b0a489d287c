//! The interface of oracles, what they may ask, and their shared parts.

use crate::happening::{Breach, Happening, Life};
use crate::program::without_garbage;
use core::ops::{Index, IndexMut};
use refrain_ring::{Clock, Incarnation, Rank, Ssn};

/// What an oracle may ask the job. The answers do not come from the engine, but from the simulated
/// loggers, the launcher and the plan.
pub trait Witness {
    /// The present life of this rank; `None` between two lives.
    fn alive(&self, rank: Rank) -> Option<Incarnation>;

    /// Whether this life is present: it has begun, is alive and was not replaced.
    fn is_present(&self, life: Life) -> bool {
        self.alive(life.rank) == Some(life.incarnation)
    }

    /// The clock up to which event loggers hold all determinants of a rank safely against the
    /// failures that the job promises to survive. `None`: not even one is safe. EL-1
    fn stable_clock(&self, rank: Rank) -> Option<Clock>;

    /// Whether a message may carry the events of its sender up to this clock, and not wait for them. CAUSAL-1
    fn may_carry(&self, _from: Rank, _to: Rank, _clock: Clock) -> bool {
        false
    }

    /// The lowest incarnation of `of` whose frames this peer takes.
    fn told_of(&self, peer: Rank, of: Rank) -> Incarnation;

    /// The clock up to which loggers may trim the determinants of a rank. GC-1
    fn forgotten_clock(&self, rank: Rank) -> Option<Clock>;
}

/// A rule, with the state that is needed to check it.
pub trait Oracle {
    /// The oracle's name in a [`Breach`].
    fn name(&self) -> &'static str;

    /// Reports a happening.
    ///
    /// # Errors
    /// When the happening violates the rule.
    fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), String>;

    /// Reports the end of the job: nothing moves any more.
    ///
    /// # Errors
    /// When something is missing.
    fn at_end(&mut self, _world: &dyn Witness) -> Result<(), String> {
        Ok(())
    }
}

pub(super) fn breach(oracle: &'static str, what: impl Into<String>) -> Breach {
    Breach {
        oracle,
        what: what.into(),
    }
}

/// The sequence number of a message in its channel as an index.
pub(super) fn index(ssn: Ssn) -> usize {
    usize::try_from(ssn.0).unwrap_or(usize::MAX)
}

/// A hash of a payload without its arbitrary bytes.
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

/// One `T` for each pair (from, to).
#[derive(Clone, Debug)]
pub(super) struct Pairs<T> {
    ranks: usize,
    pub places: Vec<T>,
}

impl<T: Default> Pairs<T> {
    pub fn new(ranks: u32) -> Self {
        let ranks = ranks as usize;
        Self {
            ranks,
            places: (0..ranks * ranks).map(|_| T::default()).collect(),
        }
    }

    /// The items of all pairs from this rank, by the other rank.
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
