//! [`MemoryStore`]: a store in memory that behaves as badly as disks may.
//!
//! For tests and the simulator: no clock, no thread, no file; what it does
//! follows from its seed and from calls of its [`MemoryDisk`]. Completions come
//! late and in any order; operations fail, for a while or for good; the disk has
//! an end; it stalls; and [`MemoryDisk::crash`] gives the bytes that a killed
//! process could leave. It also holds the log to its side of the contract, and
//! panics when that is broken.

mod dice;
mod disk;
mod file;

pub use disk::{Delivery, Failure, Fault, How, Kind, MemoryOptions};
pub use file::LeftFile;

use super::{Completion, Operation, Store};
use disk::Disk;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store in memory; see the [module](self).
#[derive(Debug)]
pub struct MemoryStore {
    disk: Arc<Mutex<Disk>>,
}

/// The other end of a [`MemoryStore`]: what happens to it.
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    disk: Arc<Mutex<Disk>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(options: MemoryOptions) -> Self {
        Self {
            disk: Arc::new(Mutex::new(Disk::new(options))),
        }
    }

    /// To let things happen to it, also when a log has it.
    pub fn disk(&self) -> MemoryDisk {
        MemoryDisk {
            disk: self.disk.clone(),
        }
    }
}

/// A panic in between is a test that fails: the disk is worth looking at still.
fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for MemoryStore {
    /// # Panics
    /// When the caller breaks the contract.
    fn submit(&mut self, operation: Operation) {
        lock(&self.disk).submit(operation);
    }

    fn poll(&mut self) -> Option<Completion> {
        lock(&self.disk).poll()
    }

    fn describe(&self) -> String {
        "in memory".into()
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            lock(&self.disk).finish();
        }
    }
}

impl MemoryDisk {
    /// Operations that have not ended.
    pub fn under_way(&self) -> usize {
        lock(&self.disk).under_way()
    }

    /// Ends one operation, counted in the order of submission; its completion
    /// comes with the next poll.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn end(&self, index: usize) {
        lock(&self.disk).end(index);
    }

    /// With `true` nothing ends any more by itself; with `false` it does again.
    pub fn stall(&self, stalled: bool) {
        lock(&self.disk).stalled = stalled;
    }

    /// Changes how completions come.
    pub fn deliver(&self, delivery: Delivery) {
        lock(&self.disk).options.delivery = delivery;
    }

    /// From now on operations fail, after earlier faults that fit.
    pub fn fail(&self, fault: Fault) {
        lock(&self.disk).faults.push(fault);
    }

    /// No operation fails any more.
    pub fn heal(&self) {
        lock(&self.disk).faults.clear();
    }

    /// Room for all files together, in bytes. Files that are there stay.
    pub fn set_room_bytes(&self, room_bytes: u64) {
        lock(&self.disk).options.room_bytes = room_bytes;
    }

    /// The files as they are.
    pub fn files(&self) -> Vec<LeftFile> {
        lock(&self.disk).files()
    }

    /// The files as they could be found if the process were killed, or its host
    /// reset, now: each operation that is under way has not happened, has
    /// happened, or has happened in part; of a write, any of its sectors of 512
    /// bytes. The store goes on unharmed; ask again for another outcome.
    pub fn crash(&self) -> Vec<LeftFile> {
        lock(&self.disk).crash()
    }
}

#[cfg(test)]
mod tests;
