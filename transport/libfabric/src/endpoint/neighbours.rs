//! Endpoints of the `shm` provider within one process.
//!
//! To that provider (1.17 as well as 2.5) an endpoint of the same process is a
//! pointer to its segment, not a mapping of its own. Reading the completion
//! queue or removing an address after such a neighbour was closed crashes. So
//! what the provider has of a closed endpoint stays until all neighbours are
//! closed too, and is not polled any more.
//!
//! Such peers must also have been greeted: libfabric 2.5 learns where to put
//! messages for a neighbour only from the neighbour's own first attempt to send,
//! and it makes none once it was greeted itself. A longer message the other way
//! then crashes the receiver. So each endpoint greets its neighbours when they
//! are inserted.
//!
//! Between processes none of this matters.

use super::objects::Objects;
use super::operations::Operations;
use crate::error::Error;
use crate::info::Info;
use std::sync::{Mutex, PoisonError};

/// What stays of a closed endpoint.
pub(super) struct Remains {
    pub(super) objects: Objects,
    /// The provider may look at contexts while it closes.
    pub(super) operations: Operations,
    pub(super) info: Info,
}

impl Remains {
    /// Closes the objects; on failure memory that they may use is leaked.
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
    /// Names of all, also of closed ones whose objects are still there.
    names: Vec<Vec<u8>>,
    closed: Vec<Remains>,
}

static NEIGHBOURS: Mutex<Neighbours> = Mutex::new(Neighbours {
    open: 0,
    names: Vec::new(),
    closed: Vec::new(),
});

/// Whether endpoints of this offer point into each other.
pub(super) fn exist_for(info: &Info) -> bool {
    info.provider().contains("shm")
}

/// An endpoint that has neighbours was opened.
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

/// An endpoint that has neighbours was closed. The last one closes all.
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
