//! A clock that also counts while the machine is suspended.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time since the boot of the kernel.
pub fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    // The kernel counts from 0, and nanoseconds are below a second.
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}
