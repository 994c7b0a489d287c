//! What ranks have put, ask for and wait for: the state behind put, get and
//! fence. Pure: messages come in, answers go out.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A published value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As it was put.
    pub value: Vec<u8>,
    /// The descriptor that was put with it.
    pub memory: Option<Arc<OwnedFd>>,
}

/// What a rank is blocked in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// In a get of this key.
    Key(String),
    /// In a fence.
    Fence,
}

impl Waiting {
    /// For people, behind "waits".
    pub fn describe(&self) -> String {
        match self {
            Waiting::Key(key) => format!("for the key {key:?}"),
            Waiting::Fence => "in a fence".into(),
        }
    }
}

/// The board of one job.
#[derive(Debug)]
pub struct Board {
    entries: HashMap<String, Entry>,
    waiting: Vec<Option<Waiting>>,
    /// Fences that all ranks have passed.
    generation: u64,
}

impl Board {
    /// For a job of `ranks` ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            entries: HashMap::new(),
            waiting: vec![None; ranks],
            generation: 0,
        }
    }

    /// What `rank` is blocked in.
    pub fn waiting(&self, rank: usize) -> Option<&Waiting> {
        self.waiting[rank].as_ref()
    }

    /// Publishes `entry`; returns the ranks that get it now.
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

    /// What is under `key`, if somebody has put it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// `rank` asks for `key`. If it is not there the rank waits.
    ///
    /// # Errors
    /// A rank that waits already: it broke the protocol.
    pub fn get(&mut self, rank: usize, key: &str) -> Result<Option<&Entry>, String> {
        self.refuse_when_waiting(rank)?;
        if !self.entries.contains_key(key) {
            self.waiting[rank] = Some(Waiting::Key(key.to_owned()));
        }
        Ok(self.entries.get(key))
    }

    /// `rank` has reached its fence number `generation`. `Some`: it was the
    /// last one, and all ranks pass this generation.
    ///
    /// # Errors
    /// A rank that waits already, or counts differently: it broke the protocol.
    pub fn fence(&mut self, rank: usize, generation: u64) -> Result<Option<u64>, String> {
        self.refuse_when_waiting(rank)?;
        if generation != self.generation {
            return Err(format!(
                "is at fence {generation}, the job at fence {}",
                self.generation
            ));
        }
        self.waiting[rank] = Some(Waiting::Fence);
        if self
            .waiting
            .iter()
            .any(|waiting| *waiting != Some(Waiting::Fence))
        {
            return Ok(None);
        }
        self.waiting.fill(None);
        self.generation += 1;
        Ok(Some(generation))
    }

    fn refuse_when_waiting(&self, rank: usize) -> Result<(), String> {
        match &self.waiting[rank] {
            Some(waiting) => Err(format!("speaks while it waits {}", waiting.describe())),
            None => Ok(()),
        }
    }

    /// Who waits for something that cannot come, given which ranks have ended:
    /// a fence that an ended rank will not reach, or all that are left wait.
    pub fn stuck(&self, ended: impl Fn(usize) -> bool) -> Option<Stuck> {
        let ranks = 0..self.waiting.len();
        let waiter = ranks
            .clone()
            .find(|rank| self.waiting[*rank].is_some() && !ended(*rank))?;
        let fencing = ranks
            .clone()
            .find(|rank| self.waiting[*rank] == Some(Waiting::Fence) && !ended(*rank));
        let gone = ranks.clone().find(|rank| ended(*rank));
        if let (Some(waiter), Some(gone)) = (fencing, gone) {
            return Some(Stuck {
                waiter,
                gone: Some(gone),
            });
        }
        let all_wait = ranks
            .clone()
            .all(|rank| ended(rank) || self.waiting[rank].is_some());
        all_wait.then_some(Stuck { waiter, gone })
    }
}

/// A wait that will not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// One of those who wait.
    pub waiter: usize,
    /// A rank that has ended and is missed.
    pub gone: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: &[u8]) -> Entry {
        Entry {
            value: value.to_vec(),
            memory: None,
        }
    }

    fn value(found: Result<Option<&Entry>, String>) -> Option<Vec<u8>> {
        found.unwrap().map(|entry| entry.value.clone())
    }

    #[test]
    fn a_get_is_served_at_once_or_by_the_put_that_it_waits_for() {
        let mut board = Board::new(3);
        assert_eq!(value(board.get(0, "a")), None);
        assert_eq!(value(board.get(2, "b")), None);
        assert_eq!(
            board.put("a", entry(b"1")),
            [0],
            "only who asked for this key"
        );
        assert_eq!(board.waiting(0), None);
        assert_eq!(value(board.get(1, "a")), Some(b"1".to_vec()));
        assert_eq!(
            board.put("a", entry(b"2")),
            [0usize; 0],
            "nobody is served twice"
        );
        assert_eq!(
            value(board.get(1, "a")),
            Some(b"2".to_vec()),
            "the later value holds"
        );
        assert_eq!(board.put("b", entry(b"")), [2]);
    }

    #[test]
    fn a_fence_opens_for_the_last_rank_and_only_then() {
        let mut board = Board::new(3);
        for generation in 0..3 {
            assert_eq!(board.fence(1, generation), Ok(None));
            assert_eq!(board.fence(0, generation), Ok(None));
            assert!(board.fence(0, generation).is_err(), "a rank counts once");
            assert_eq!(board.fence(2, generation), Ok(Some(generation)));
            assert!((0..3).all(|rank| board.waiting(rank).is_none()));
        }
    }

    #[test]
    fn a_rank_that_counts_fences_differently_is_refused() {
        let mut board = Board::new(2);
        assert!(board.fence(0, 1).is_err());
        assert_eq!(
            board.fence(0, 0),
            Ok(None),
            "the refused call left nothing behind"
        );
    }

    #[test]
    fn a_fence_that_an_ended_rank_misses_is_stuck() {
        let mut board = Board::new(3);
        board.fence(1, 0).unwrap();
        assert_eq!(board.stuck(|_| false), None);
        assert_eq!(
            board.stuck(|rank| rank == 2),
            Some(Stuck {
                waiter: 1,
                gone: Some(2)
            })
        );
        assert_eq!(
            board.stuck(|rank| rank == 1),
            None,
            "the ended one waits for nothing"
        );
    }

    #[test]
    fn a_get_is_stuck_only_when_nobody_is_left_to_put() {
        let mut board = Board::new(3);
        board.get(0, "k").unwrap();
        assert_eq!(board.stuck(|rank| rank == 1), None, "rank 2 may put it");
        board.get(2, "l").unwrap();
        assert_eq!(
            board.stuck(|rank| rank == 1),
            Some(Stuck {
                waiter: 0,
                gone: Some(1)
            })
        );
        board.get(1, "m").unwrap();
        assert_eq!(
            board.stuck(|_| false),
            Some(Stuck {
                waiter: 0,
                gone: None
            })
        );
    }
}
