//! Log memory that is used again: to make it fresh for every life of every way
//! would take longer than all else. A log does not ask what was in its memory.

use super::life::LOG_BYTES;
use refrain_ring::Region;
use std::cell::RefCell;

thread_local! {
    static UNUSED: RefCell<Vec<Region>> = const { RefCell::new(Vec::new()) };
}

/// The memory of all lives of one world.
#[derive(Default)]
pub(super) struct Memories(Vec<Region>);

impl Memories {
    /// Memory for a life.
    pub fn lend(&mut self) -> Region {
        let unused = UNUSED.with(|unused| unused.borrow_mut().pop());
        let region = unused.unwrap_or_else(|| Region::heap(LOG_BYTES));
        self.0.push(region.clone());
        region
    }
}

impl Drop for Memories {
    fn drop(&mut self) {
        UNUSED.with(|unused| unused.borrow_mut().append(&mut self.0));
    }
}
