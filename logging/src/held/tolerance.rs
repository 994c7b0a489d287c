//! Which deaths at once ranks that hold each other's events survive.

use refrain_ring::Rank;
use std::collections::BTreeSet;

/// How many *failure domains* may be gone at once, and which ranks are in one: those of a correlated
/// set; other ranks are each in one of their own. A rank's events are held in that many other domains.
/// TICKET-1, TICKET-4
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tolerance {
    failures: usize,
    /// By rank, the number of its set; empty: there are no sets.
    set_of_rank: Vec<u32>,
}

/// One failure at once, without sets.
impl Default for Tolerance {
    fn default() -> Self {
        Self::new(1, &[])
    }
}

impl Tolerance {
    /// Maximum number of domains that may be gone at once.
    pub const FAILURES_MAX: usize = 8;

    /// `set_of_rank`: by rank, the number of its correlated set; empty: there are no sets.
    ///
    /// # Panics
    /// When `failures` is not from 1 to [`Self::FAILURES_MAX`].
    pub fn new(failures: usize, set_of_rank: &[u32]) -> Self {
        assert!(
            (1..=Self::FAILURES_MAX).contains(&failures),
            "{failures} failures"
        );
        Self {
            failures,
            set_of_rank: set_of_rank.to_vec(),
        }
    }

    /// How many domains may be gone at once.
    #[inline]
    pub fn failures(&self) -> usize {
        self.failures
    }

    /// Whether there are sets.
    #[inline]
    pub fn has_sets(&self) -> bool {
        !self.set_of_rank.is_empty()
    }

    /// The number of a rank's domain.
    #[inline]
    pub fn domain(&self, rank: Rank) -> u32 {
        self.set_of_rank
            .get(rank.index())
            .map_or(rank.0, |set| *set)
    }

    /// Whether two ranks fail together.
    #[inline]
    pub fn are_together(&self, one: Rank, other: Rank) -> bool {
        self.domain(one) == self.domain(other)
    }

    /// Number of domains in which these ranks are.
    pub fn domains(&self, ranks: impl IntoIterator<Item = Rank>) -> usize {
        let domains = ranks.into_iter().map(|rank| self.domain(rank));
        domains.collect::<BTreeSet<_>>().len()
    }
}
