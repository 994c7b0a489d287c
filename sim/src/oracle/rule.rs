//! What an oracle is, what it may ask, and what several of them need.

use crate::happening::{Breach, Happening, Life};
use crate::program::without_garbage;
use core::ops::{Index, IndexMut};
use refrain_ring::{Clock, Incarnation, Rank, Ssn};

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

pub(super) fn breach(oracle: &'static str, what: impl Into<String>) -> Breach {
    Breach {
        oracle,
        what: what.into(),
    }
}

/// Which message of its channel a sequence number is, as an index.
pub(super) fn index(ssn: Ssn) -> usize {
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
