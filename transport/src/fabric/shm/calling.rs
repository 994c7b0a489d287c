//! How the launcher wakes a rank that sleeps on shared memory: messages on the
//! control socket do not end a wait on a futex.
//!
//! The launcher sends its message, sets `called`, and wakes the rank if the rank sleeps. The rank
//! sets `sleeping`, and checks `called` a last time. Both execute a full fence in between, so that
//! at least one of them sees the store of the other.

use super::dead::{DeadLogError, attach_checked};
use super::segment::Segment;
use super::wake;
use core::sync::atomic::Ordering::SeqCst;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The doorbell of a rank, for a process that is not a rank of its job.
#[derive(Debug)]
pub struct Caller {
    segment: Segment,
}

impl Caller {
    /// Maps the doorbell of the rank that created this segment.
    ///
    /// # Errors
    /// When the descriptor is not of a rank's segment, or cannot be mapped.
    pub fn new(file: Arc<OwnedFd>) -> Result<Self, DeadLogError> {
        let segment = attach_checked(&file, Segment::attach_doorbell)?;
        Ok(Self { segment })
    }

    /// Ends the rank's wait, or the next one if it does not wait now.
    pub fn call(&self) {
        let doorbell = self.segment.doorbell();
        doorbell.called.swap(1, SeqCst);
        wake::wake(&doorbell.sleeping);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Fabric as _;
    use crate::fabric::shm::{Shm, ShmOptions};
    use core::time::Duration;
    use refrain_ring::{Incarnation, Rank};
    use rustix::fs::{MemfdFlags, memfd_create};

    /// The test's own time limit ends a wait that no call ends.
    const FOR_EVER: Duration = Duration::from_secs(3600);

    fn rank_and_caller() -> (Shm, Caller) {
        let options = ShmOptions {
            job: 7,
            rank: Rank(0),
            incarnation: Incarnation(0),
            size: 2,
            log_bytes: 1 << 20,
            window_bytes: 1 << 20,
        };
        let (fabric, _) = Shm::create(options).expect("memory");
        let caller = Caller::new(Arc::clone(fabric.own.file().expect("it is its own")))
            .expect("its doorbell");
        (fabric, caller)
    }

    #[test]
    fn a_call_ends_a_wait_whenever_it_comes() {
        let (mut fabric, caller) = rank_and_caller();
        caller.call();
        fabric.wait(FOR_EVER);
        // Each call ends one wait: the next call has to come while the rank waits,
        // or before.
        let (begun, has_begun) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            for _ in 0..1000 {
                begun.send(()).expect("the caller listens");
                fabric.wait(FOR_EVER);
            }
        });
        for () in has_begun {
            caller.call();
        }
        waiter.join().expect("no wait has failed");
    }

    #[test]
    fn what_is_no_segment_is_refused() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("a file");
        Caller::new(Arc::new(file)).expect_err("it has no seals");
    }
}
