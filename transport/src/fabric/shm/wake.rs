//! Sleeping and waking without a fence on the fast path.
//!
//! The race: a sender posts and then checks whether the receiver asks for the doorbell; a receiver
//! asks for the doorbell and then checks whether a frame was posted. Each must do its store before
//! its load, or both miss the store of the other. For the sender that would be a full fence per
//! message. Instead the receiver, which is about to sleep anyway, has the kernel run a barrier on
//! all processors that run ranks (`membarrier`, global expedited); the sender only keeps the
//! compiler from reordering its store and load. If the kernel does not offer this barrier, both
//! sides use full fences.

use core::sync::atomic::{AtomicU32, Ordering, fence};
use core::time::Duration;
use rustix::thread::futex;

/// Registers this process for expedited barriers. Returns whether the kernel offers them.
pub(super) fn register() -> bool {
    use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};
    membarrier_query()
        .contains(MembarrierQuery::GLOBAL_EXPEDITED | MembarrierQuery::REGISTER_GLOBAL_EXPEDITED)
        && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
}

/// The receiver's half: the barrier between raising flags and the last check.
pub(super) fn before_last_look(registered: bool) {
    fence(Ordering::SeqCst);
    if registered {
        use rustix::thread::{MembarrierCommand, membarrier};
        membarrier(MembarrierCommand::GlobalExpedited)
            .expect("the kernel offered this barrier when it was registered");
    }
}

/// Sleeps while `sleeping` is 1, at most for `timeout`.
pub(super) fn sleep(sleeping: &AtomicU32, timeout: Duration) {
    let timeout = futex::Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // The caller checks again after every result: woken, already 0, interrupted, timed out.
    let _ = futex::wait(sleeping, futex::Flags::empty(), 1, Some(&timeout));
}

/// Wakes the process that sleeps there.
#[inline]
pub(super) fn wake(sleeping: &AtomicU32) {
    if sleeping.load(Ordering::SeqCst) == 1 && sleeping.swap(0, Ordering::SeqCst) == 1 {
        // The only error is a bad address, which a mapped segment is not.
        let _ = futex::wake(sleeping, futex::Flags::empty(), 1);
    }
}
