//! A table with a place for every ordered pair of ranks.

use core::ops::{Index, IndexMut};
use refrain_ring::Rank;

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
