//! Endpoints of the `shm` provider within one process.
//!
//! In that provider (1.17 and 2.5), an endpoint of the same process is a pointer to its segment,
//! not a mapping of its own. After such a neighbour was closed, reading the completion queue or
//! removing an address crashes. So the objects of a closed endpoint stay until all its neighbours
//! are closed, too, and are not polled any more.
//!
//! Such peers must also greet each other. libfabric 2.5 learns the place for messages to a
//! neighbour only from the neighbour's first attempt to send, and the neighbour makes no such
//! attempt once it has been greeted itself. A longer message in the other direction then crashes
//! the receiver. So each endpoint greets its neighbours when they are inserted.
//!
//! None of this applies between processes.

use super::objects::Objects;
use super::operations::Operations;
use crate::error::Error;
use crate::info::Info;
use std::sync::{Mutex, PoisonError};

/// The objects of a closed endpoint.
pub(super) struct Remains {
    pub(super) objects: Objects,
    /// The provider may access contexts while it closes.
    pub(super) operations: Operations,
    pub(super) info: Info,
}

impl Remains {
    /// Closes the objects; if that fails, memory that they may use is leaked.
    pub(super) fn close(
        self,
        registrations: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let result = self.objects.close(&self.info, registrations);
        if result.is_err() {
            core::mem::forget(self.operations);
        }
        result
    }
}

struct Neighbours {
    open: usize,
    /// Names of all endpoints, also of closed ones whose objects still exist.
    names: Vec<Vec<u8>>,
    closed: Vec<Remains>,
}

static NEIGHBOURS: Mutex<Neighbours> = Mutex::new(Neighbours {
    open: 0,
    names: Vec::new(),
    closed: Vec::new(),
});

/// Whether endpoints of this offer refer to each other within a process.
pub(super) fn exist_for(info: &Info) -> bool {
    info.provider().contains("shm")
}

/// Counts an opened endpoint that can have neighbours.
pub(super) fn opened(name: Vec<u8>) {
    let mut neighbours = NEIGHBOURS.lock().unwrap_or_else(PoisonError::into_inner);
    neighbours.open += 1;
    neighbours.names.push(name);
}

/// Whether an endpoint of this process has the name.
pub(super) fn include(name: &[u8]) -> bool {
    let neighbours = NEIGHBOURS.lock().unwrap_or_else(PoisonError::into_inner);
    neighbours.names.iter().any(|known| known == name)
}

/// Counts a closed endpoint that can have neighbours. The last one closes the objects of all.
pub(super) fn closed(remains: Remains) -> Result<(), Error> {
    let mut neighbours = NEIGHBOURS.lock().unwrap_or_else(PoisonError::into_inner);
    neighbours.open -= 1;
    neighbours.closed.push(remains);
    if neighbours.open > 0 {
        return Ok(());
    }
    neighbours.names.clear();
    neighbours
        .closed
        .drain(..)
        .map(|remains| remains.close(|| Ok(())))
        .fold(Ok(()), Result::and)
}
