//! A state for each rank of the job that takes memory only once it is used: a job has many ranks,
//! and a rank communicates with few of them. A silent peer costs one pointer.

use core::fmt;
use core::ops::{Index, IndexMut};
use refrain_ring::Rank;

/// The rank of a state that is of none.
const NO_RANK: Rank = Rank(u32::MAX);

/// How the state of a rank begins.
pub(super) trait Begin {
    type State;

    fn begin(&self, rank: Rank) -> Self::State;
}

/// The states of all ranks. A state is stored when it may change for the first time; until then it
/// is read as one that just begins, and that is of no rank.
pub(super) struct PerRank<B: Begin> {
    begin: B,
    fresh: B::State,
    states: Vec<Option<Box<B::State>>>,
}

impl<B: Begin> PerRank<B> {
    pub fn new(begin: B, size: u32) -> Self {
        Self {
            fresh: begin.begin(NO_RANK),
            begin,
            states: (0..size).map(|_| None).collect(),
        }
    }

    /// Changes how the states begin that are not stored yet.
    pub fn change(&mut self, change: impl FnOnce(&mut B)) {
        change(&mut self.begin);
        self.fresh = self.begin.begin(NO_RANK);
    }

    /// The state of a rank, if it is stored.
    pub fn get(&self, rank: Rank) -> Option<&B::State> {
        self.states[rank.index()].as_deref()
    }

    /// The state of a rank, stored from now on.
    pub fn stored(&mut self, rank: Rank) -> &B::State {
        self.index_mut(rank.index())
    }

    /// The state with which a rank begins.
    pub fn fresh(&self, rank: Rank) -> B::State {
        self.begin.begin(rank)
    }

    /// The stored states, in the order of ranks.
    pub fn iter(&self) -> impl Iterator<Item = &B::State> {
        self.states.iter().filter_map(Option::as_deref)
    }

    /// The stored states, in the order of ranks.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut B::State> {
        self.states.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// Number of ranks.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    #[cold]
    fn store(&mut self, index: usize) -> &mut B::State {
        let state = self.begin.begin(Rank(index as u32));
        self.states[index].insert(Box::new(state))
    }
}

impl<B: Begin> Index<usize> for PerRank<B> {
    type Output = B::State;

    #[inline]
    fn index(&self, index: usize) -> &B::State {
        self.states[index].as_deref().unwrap_or(&self.fresh)
    }
}

impl<B: Begin> IndexMut<usize> for PerRank<B> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut B::State {
        // Two look-ups: the borrow checker refuses to return the first one from a branch.
        if self.states[index].is_none() {
            return self.store(index);
        }
        self.states[index].as_deref_mut().expect("seen above")
    }
}

impl<B: Begin<State: fmt::Debug>> fmt::Debug for PerRank<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
