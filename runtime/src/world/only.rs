//! Allows one world at a time. A scope lends the world that its requests belong to; with a second
//! world, a program could swap the two under the scope. This module also states why a world may
//! move to another thread.

#![allow(unsafe_code, reason = "declares that a world may move between threads")]

use super::World;
use crate::Error;
use core::sync::atomic::{AtomicBool, Ordering};

/// A world of this process exists.
static EXISTS: AtomicBool = AtomicBool::new(false);

// SAFETY: one thread at a time uses a world, since every operation borrows it exclusively, and none
// of its parts belongs to a thread:
//
// - Fabric, disk and records are behind traits that simulators implement too, on
//   one thread. Those of a world are `Send`: `setup` boxes them so.
// - Reference counts that are not atomic (chunks that the log's arena lends, mailboxes of reads of
//   the log) have all their owners inside the engine, or in calls that borrow the world until they
//   return: they move with the world.
// - The arena's function that takes memory holds the segment alone, which is
//   `Send`.
// - Buffers of requests are memory of the program, given by pointer. Blocking calls give theirs
//   back before they return. A scope borrows the world, so the world cannot move meanwhile. A
//   caller that lends a buffer by pointer (`SendBuffer::bytes`, `ReceiveBuffer::bytes`) promises
//   that no thread touches it until the request has ended.
// - Providers of libfabric are opened with `FI_THREAD_DOMAIN`: accesses exclude each other, from
//   any thread. Objects of libibverbs are usable from any thread.
// - The disk's `io_uring` with a single issuer is used by the disk's own thread. `membarrier` is
//   registered for the process. A sleeping rank waits on a word in memory or in poll(2).
unsafe impl Send for World {}

/// Held by the only world of a process.
#[derive(Debug)]
pub(super) struct Only(());

impl Only {
    /// # Errors
    /// When a world exists already.
    pub(super) fn claim() -> Result<Self, Error> {
        match EXISTS.swap(true, Ordering::Acquire) {
            false => Ok(Self(())),
            true => Err(Error::Config(
                "World::init was called while there is a world already: a process is one rank; pass that world on to whatever needs it, or end it with World::finalize first"
                    .into(),
            )),
        }
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        EXISTS.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use crate::World;

    fn is_send<T: Send>() {}

    #[test]
    fn there_is_one_world_at_a_time_on_whatever_thread() {
        is_send::<World>();
        let mut first = World::init().expect("a job of one rank");
        let error = World::init().expect_err("there is one");
        assert!(error.to_string().contains("World::finalize"), "{error}");
        let first = std::thread::spawn(move || {
            World::init().expect_err("there is one in the process");
            first.send(&[7], crate::to(0)).expect("it fits the log");
            first
        });
        let mut first = first.join().expect("it does not panic");
        let mut byte = [0];
        first.recv(&mut byte, crate::from(0)).expect("it was sent");
        assert_eq!(byte, [7]);
        first.finalize().expect("nothing is under way");
        let second = World::init().expect("the first has ended");
        drop(second);
        World::init().expect("the second has ended");
    }
}
