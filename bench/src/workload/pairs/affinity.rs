//! On which core a rank stays.

use super::WorkloadError;
use rustix::thread::{CpuSet, sched_setaffinity};

/// This process runs on the core of this number from now on, and nowhere else.
///
/// # Errors
/// When there is no such core.
pub fn stay_on(core: usize) -> Result<(), WorkloadError> {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).map_err(|error| WorkloadError::System {
        attempted: format!("cannot stay on core {core}"),
        error: error.into(),
    })
}
