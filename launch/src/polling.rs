//! Waits for one descriptor.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Whether a descriptor becomes ready for `events` within a time. Errors of the descriptor count
/// as ready: the next call with it returns them.
pub fn is_ready_within(descriptor: &impl AsFd, events: PollFlags, longest: Duration) -> bool {
    let give_up_at = Instant::now() + longest;
    let mut polled = [PollFd::new(descriptor, events)];
    let ready = rustix::io::retry_on_intr(|| {
        let left = give_up_at.saturating_duration_since(Instant::now());
        poll(&mut polled, Timespec::try_from(left).ok().as_ref())
    });
    ready.is_ok_and(|ready| ready > 0)
}

/// Whether a descriptor is ready for `events` now.
pub fn is_ready(descriptor: &impl AsFd, events: PollFlags) -> bool {
    is_ready_within(descriptor, events, Duration::ZERO)
}
