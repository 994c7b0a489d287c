//! Allows one writer of a rank's checkpoints at a time: the last that began.

use refrain_ring::Rank;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The turns of all ranks.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<BTreeMap<Rank, Turn>>);

/// The number of turns of one rank so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn(Arc<Mutex<u64>>);

/// While it is held, no other writer of the rank begins or ends.
#[derive(Debug)]
pub(super) struct Begun<'a> {
    turn: &'a Turn,
    count: MutexGuard<'a, u64>,
}

/// The turn of one writer; it is over when another writer has begun.
#[derive(Debug)]
pub(super) struct Mine {
    turn: Turn,
    number: u64,
}

impl Turns {
    pub fn of(&self, rank: Rank) -> Turn {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(rank).or_default().clone()
    }
}

impl Turn {
    pub fn begin(&self) -> Begun<'_> {
        let count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Begun { turn: self, count }
    }
}

impl Begun<'_> {
    /// Begins the caller's turn: earlier turns are over.
    pub fn take(&mut self) -> Mine {
        *self.count += 1;
        Mine {
            turn: self.turn.clone(),
            number: *self.count,
        }
    }
}

impl Mine {
    /// Calls `act` while no other turn can begin; `None`: another turn has begun before.
    pub fn while_it_lasts<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let begun = self.turn.begin();
        (*begun.count == self.number).then(act)
    }
}
