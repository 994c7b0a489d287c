//! Published values, and ranks that wait for values or in a fence: the state of put, get and
//! fence. Pure: messages are inputs, answers are outputs.

use super::link::Memory;
use std::collections::HashMap;

/// A published value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The value, as it was put.
    pub value: Vec<u8>,
    /// The descriptor that was put with it.
    pub memory: Option<Memory>,
}

/// What a rank waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// For a value under this key.
    Key(String),
    /// For the hosts of all ranks.
    Hosts,
    /// For other ranks, in a fence.
    Fence {
        /// It is the last fence: the rank leaves the job with it.
        last: bool,
    },
}

/// Result of a rank's arrival at a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// The rank waits for other ranks.
    Waits,
    /// All ranks, or earlier lives of them, have passed this fence before.
    HasPassed,
    /// All ranks pass the fence now.
    Opens {
        /// The ranks that leave the job with this fence.
        leaving: Vec<usize>,
    },
}

impl Waiting {
    /// A text for people, to follow "waits".
    pub fn describe(&self) -> String {
        match self {
            Waiting::Key(key) => format!("for the key {key:?}"),
            Waiting::Hosts => "for all ranks to join the job".into(),
            Waiting::Fence { .. } => "in a fence".into(),
        }
    }
}

/// The published values and waiting ranks of one job.
#[derive(Debug)]
pub struct KeyValues {
    entries: HashMap<String, Entry>,
    waiting: Vec<Option<Waiting>>,
    /// By rank: its host, encoded.
    hosts: Vec<Option<Vec<u8>>>,
    /// Number of fences that all ranks have passed.
    generation: u64,
}

impl KeyValues {
    /// A state for a job of `ranks` ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            entries: HashMap::new(),
            waiting: vec![None; ranks],
            hosts: vec![None; ranks],
            generation: 0,
        }
    }

    /// What `rank` waits for.
    pub fn waiting(&self, rank: usize) -> Option<&Waiting> {
        self.waiting[rank].as_ref()
    }

    /// Publishes `entry`; returns the ranks that wait for it.
    pub fn put(&mut self, key: &str, entry: Entry) -> Vec<usize> {
        self.entries.insert(key.to_owned(), entry);
        let mut served = Vec::new();
        for (rank, waiting) in self.waiting.iter_mut().enumerate() {
            if matches!(waiting, Some(Waiting::Key(wanted)) if wanted == key) {
                *waiting = None;
                served.push(rank);
            }
        }
        served
    }

    /// The entry under `key`, if a rank has put it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// `rank` asks for `key`. If the key is missing, the rank waits.
    ///
    /// # Errors
    /// The rank already waits: it broke the protocol.
    pub fn get(&mut self, rank: usize, key: &str) -> Result<Option<&Entry>, String> {
        self.refuse_when_waiting(rank)?;
        if !self.entries.contains_key(key) {
            self.waiting[rank] = Some(Waiting::Key(key.to_owned()));
        }
        Ok(self.entries.get(key))
    }

    /// `rank` names its host, and asks for those of all ranks. Returns the ranks that get them now:
    /// all hosts are known.
    ///
    /// # Errors
    /// The rank already waits: it broke the protocol.
    pub fn host(&mut self, rank: usize, host: Vec<u8>) -> Result<Vec<usize>, String> {
        self.refuse_when_waiting(rank)?;
        self.hosts[rank] = Some(host);
        self.waiting[rank] = Some(Waiting::Hosts);
        if self.hosts.iter().any(Option::is_none) {
            return Ok(Vec::new());
        }
        let waits = |rank: &usize| self.waiting[*rank] == Some(Waiting::Hosts);
        let served: Vec<usize> = (0..self.waiting.len()).filter(waits).collect();
        for rank in &served {
            self.waiting[*rank] = None;
        }
        Ok(served)
    }

    /// The hosts of all ranks that have named theirs, by rank.
    pub fn hosts(&self) -> Vec<&[u8]> {
        self.hosts.iter().flatten().map(Vec::as_slice).collect()
    }

    /// `rank` has reached its fence number `generation`. A later life passes at once the fences
    /// that an earlier life has passed. A fence does not open while a rank that waits in it is
    /// dead (`lives` is false): that rank will be [forgotten](Self::forget), and its next life
    /// reaches the fence again.
    ///
    /// # Errors
    /// The rank already waits, or is ahead of all others: it broke the protocol.
    pub fn fence(
        &mut self,
        rank: usize,
        generation: u64,
        last: bool,
        lives: impl Fn(usize) -> bool,
    ) -> Result<Fencing, String> {
        self.refuse_when_waiting(rank)?;
        if generation > self.generation {
            return Err(format!(
                "is at fence {generation}, the job at fence {}",
                self.generation
            ));
        }
        if generation < self.generation {
            return Ok(Fencing::HasPassed);
        }
        self.waiting[rank] = Some(Waiting::Fence { last });
        let is_there = |waiting: &Option<Waiting>| matches!(waiting, Some(Waiting::Fence { .. }));
        if !self.waiting.iter().all(is_there) || !(0..self.waiting.len()).all(lives) {
            return Ok(Fencing::Waits);
        }
        let is_last = |rank: &usize| self.waiting[*rank] == Some(Waiting::Fence { last: true });
        let leaving = (0..self.waiting.len()).filter(is_last).collect();
        self.waiting.fill(None);
        self.generation += 1;
        Ok(Fencing::Opens { leaving })
    }

    /// A rank goes on from a state behind this number of fences, so all ranks have passed them, in
    /// an earlier run of the job at least. Returns those that wait in one of them, with its number.
    /// JOB-3
    pub fn have_passed(&mut self, fences: u64) -> Vec<(usize, u64)> {
        let before = self.generation;
        if fences <= before {
            return Vec::new();
        }
        self.generation = fences;
        let mut released = Vec::new();
        for (rank, waiting) in self.waiting.iter_mut().enumerate() {
            if matches!(waiting, Some(Waiting::Fence { .. })) {
                *waiting = None;
                released.push((rank, before));
            }
        }
        released
    }

    /// A life of `rank` has ended: it waits for nothing, and the values that it had put under
    /// `keys` are void. `may_move`: the next life may be on another host.
    pub fn forget(&mut self, rank: usize, keys: &[String], may_move: bool) {
        self.waiting[rank] = None;
        self.hosts[rank].take_if(|_| may_move);
        for key in keys {
            self.entries.remove(key);
        }
    }

    fn refuse_when_waiting(&self, rank: usize) -> Result<(), String> {
        match &self.waiting[rank] {
            Some(waiting) => Err(format!(
                "sent a message while it waits {}",
                waiting.describe()
            )),
            None => Ok(()),
        }
    }

    /// A wait that cannot end: ranks wait in a fence that an ended rank will not reach, or all
    /// ranks that have not ended wait. `ended` says which ranks have ended.
    pub fn stalled(&self, ended: impl Fn(usize) -> bool) -> Option<StalledWait> {
        let ranks = 0..self.waiting.len();
        let waiter = ranks
            .clone()
            .find(|rank| self.waiting[*rank].is_some() && !ended(*rank))?;
        let fencing = ranks.clone().find(|rank| {
            matches!(self.waiting[*rank], Some(Waiting::Fence { .. })) && !ended(*rank)
        });
        let gone = ranks.clone().find(|rank| ended(*rank));
        if let (Some(waiter), Some(gone)) = (fencing, gone) {
            return Some(StalledWait {
                waiter,
                gone: Some(gone),
            });
        }
        let all_wait = ranks
            .clone()
            .all(|rank| ended(rank) || self.waiting[rank].is_some());
        all_wait.then_some(StalledWait { waiter, gone })
    }
}

/// A wait that will not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalledWait {
    /// A rank that waits.
    pub waiter: usize,
    /// A rank that has ended, which `waiter` may wait for.
    pub gone: Option<usize>,
}

#[cfg(test)]
mod tests;
