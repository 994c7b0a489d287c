//! What moves the bytes: the joint between a store's thread and the system.

use super::bell::Bell;
use super::transfer::Transfer;
use std::io;
use std::sync::Arc;

/// A piece of a transfer has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub transfer: Transfer,
    /// Bytes that were moved of its rest.
    pub result: io::Result<usize>,
}

/// Moves transfers' bytes; each transfer comes back once for each time it was
/// begun. Holds the memory of those under way as long as the system uses it,
/// whatever happens.
pub(super) trait Engine {
    /// How many more transfers may be begun.
    fn room(&self) -> usize;

    /// Begins to move a transfer's rest. Only when there is room.
    fn begin(&mut self, transfer: Transfer);

    /// Adds what has ended. With `sleep`, waits until something has, or the bell
    /// rings.
    fn collect(&mut self, sleep: bool, ended: &mut Vec<Ended>) -> io::Result<()>;

    /// Transfers that have not come back.
    fn under_way(&self) -> usize;

    /// For people: "io_uring".
    fn name(&self) -> String;
}

/// Makes the engine, in the thread that is going to use it.
pub(super) type MakeEngine =
    Box<dyn FnOnce(&Arc<Bell>) -> Result<Box<dyn Engine>, io::Error> + Send>;
