//! The holders of a rank's batches.

use super::tolerance::Tolerance;
use refrain_ring::Rank;

/// For each batch of a row, the ranks to which it was given: one place for each domain that may be gone at
/// once, with a rank of another domain each.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Holders {
    /// The rank that made the batches. A place with this rank is empty.
    owner: Rank,
    per_batch: usize,
    ranks: Vec<Rank>,
}

impl Holders {
    pub fn new(owner: Rank, tolerance: &Tolerance) -> Self {
        Self {
            owner,
            per_batch: tolerance.failures(),
            ranks: Vec::new(),
        }
    }

    /// Number of batches.
    pub fn len(&self) -> usize {
        self.ranks.len() / self.per_batch
    }

    /// Forgets all batches.
    pub fn clear(&mut self) {
        self.ranks.clear();
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ranks)
    }

    /// The places of a batch.
    pub fn of(&self, at: usize) -> &[Rank] {
        &self.ranks[at * self.per_batch..][..self.per_batch]
    }

    pub fn of_mut(&mut self, at: usize) -> &mut [Rank] {
        &mut self.ranks[at * self.per_batch..][..self.per_batch]
    }

    /// Adds a batch with these holders: the first of each domain, as far as there are places. Returns which
    /// places are taken, as bits.
    pub fn push(&mut self, tolerance: &Tolerance, holders: impl IntoIterator<Item = Rank>) -> u8 {
        let begin = self.ranks.len();
        for holder in holders {
            let known = &self.ranks[begin..];
            let is_new = |known: &Rank| !tolerance.are_together(*known, holder);
            if known.len() < self.per_batch
                && !tolerance.are_together(self.owner, holder)
                && known.iter().all(is_new)
            {
                self.ranks.push(holder);
            }
        }
        let held = self.ranks.len() - begin;
        self.ranks.resize(begin + self.per_batch, self.owner);
        bits(held)
    }

    /// Appends a batch of another row.
    pub fn push_of(&mut self, other: &Self, at: usize) {
        self.ranks.extend_from_slice(other.of(at));
    }
}

/// The lowest `count` bits.
pub(crate) fn bits(count: usize) -> u8 {
    u8::MAX.checked_shr(8 - count as u32).unwrap_or(0)
}
