//! The disk under a rank's payload log, as a process has it that may die.

use crate::mortal::Mortal;
use refrain_logging::store::faulty::MemoryStore;
use refrain_logging::store::{Completion, Operation, Store};

/// A store under a process. The dead submit nothing and are told nothing.
#[derive(Debug)]
pub struct MortalStore {
    inner: MemoryStore,
    mortal: Mortal,
}

impl MortalStore {
    /// The store of a process.
    pub fn new(inner: MemoryStore, mortal: Mortal) -> Self {
        Self { inner, mortal }
    }
}

impl Store for MortalStore {
    fn submit(&mut self, operation: Operation) {
        let inner = &mut self.inner;
        // What the dead would have submitted is dropped with its chunk.
        self.mortal.act(|| inner.submit(operation));
    }

    fn poll(&mut self) -> Option<Completion> {
        match self.mortal.is_dead() {
            true => None,
            false => self.inner.poll(),
        }
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
