//! The disk under a rank's payload log, as a process has it that may die.

use crate::mortal::Mortal;
use crate::planted::Planted;
use refrain_logging::store::faulty::MemoryStore;
use refrain_logging::store::{Completion, Operation, Store};
use std::collections::VecDeque;

/// A store under a process. The dead submit nothing and are told nothing.
#[derive(Debug)]
pub struct MortalStore {
    inner: MemoryStore,
    mortal: Mortal,
    lies: bool,
    /// What it said it has written.
    lied: VecDeque<Completion>,
}

impl MortalStore {
    /// The store of a process.
    pub fn new(inner: MemoryStore, mortal: Mortal, planted: Option<Planted>) -> Self {
        Self {
            inner,
            mortal,
            lies: planted == Some(Planted::DiskLies),
            lied: VecDeque::new(),
        }
    }
}

impl MortalStore {
    fn lie(&mut self, operation: Operation) {
        if let Operation::Write { file, chunk, .. } = operation {
            self.lied.push_back(Completion::Written {
                file,
                chunk,
                result: Ok(()),
            });
        }
    }
}

impl Store for MortalStore {
    fn submit(&mut self, operation: Operation) {
        if let (true, Operation::Write { .. }) = (self.lies, &operation) {
            return self.lie(operation);
        }
        let inner = &mut self.inner;
        // What the dead would have submitted is dropped with its chunk.
        self.mortal.act(|| inner.submit(operation));
    }

    fn poll(&mut self) -> Option<Completion> {
        match self.mortal.is_dead() {
            true => None,
            false => self.lied.pop_front().or_else(|| self.inner.poll()),
        }
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
