//! Where the determinants of a rank become stable, at random times.

use fastrand::Rng;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::pessimist::Commits;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The batches of a rank; stable batches survive its death.
#[derive(Clone, Debug)]
pub struct Store(Rc<RefCell<Stored>>);

#[derive(Debug)]
struct Stored {
    stable: Vec<Vec<u8>>,
    pending: VecDeque<Vec<u8>>,
    rng: Rng,
}

impl Store {
    pub fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(Stored {
            stable: Vec::new(),
            pending: VecDeque::new(),
            rng: Rng::with_seed(seed),
        })))
    }

    pub fn stable(&self) -> Vec<Vec<u8>> {
        self.0.borrow().stable.clone()
    }

    /// The death of the rank: batches that are not stable are lost.
    pub fn lose_pending(&self) {
        self.0.borrow_mut().pending.clear();
    }

    pub fn end(&self) -> EventIndex {
        let stored = self.0.borrow();
        let last = stored.stable.last();
        last.map_or(EventIndex(0), |last| {
            BatchHeader::read(last).expect("it was written").0.end()
        })
    }
}

impl Commits for Store {
    fn commit(&mut self, _: &BatchHeader, batch: &[u8]) {
        self.0.borrow_mut().pending.push_back(batch.to_vec());
    }

    fn stable_end(&self) -> EventIndex {
        self.end()
    }

    fn poll(&mut self) -> EventIndex {
        {
            let stored = &mut *self.0.borrow_mut();
            if stored.rng.u8(..3) == 0 {
                stored.stable.extend(stored.pending.pop_front());
            }
        }
        self.end()
    }

    fn is_instant(&self) -> bool {
        false
    }
}
