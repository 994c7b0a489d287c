//! Where the determinants of a rank become stable when the explorer says so. That
//! quorums, fences and replicas do that right is explored in
//! [`exhaustive`](crate::exhaustive).

use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::pessimist::Commits;
use refrain_ring::Clock;
use std::cell::RefCell;
use std::rc::Rc;

/// Batches of a life.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Row {
    /// Begun, and not stable: with one past its last determinant.
    pub pending: Vec<(EventIndex, Rc<[u8]>)>,
    /// One past the last that is stable.
    pub stable: EventIndex,
    /// What is before was given up.
    pub trimmed: Clock,
}

/// The same, for the protocol.
#[derive(Clone, Debug, Default)]
pub(super) struct Desk(pub Rc<RefCell<Row>>);

impl Commits for Desk {
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        let mut row = self.0.borrow_mut();
        row.pending.push((header.end(), batch.into()));
    }

    fn stable_end(&self) -> EventIndex {
        self.0.borrow().stable
    }

    fn poll(&mut self) -> EventIndex {
        self.stable_end()
    }

    fn is_instant(&self) -> bool {
        false
    }

    fn trim(&mut self, before: Clock) {
        self.0.borrow_mut().trimmed = before;
    }
}
