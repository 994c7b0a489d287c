//! Checks schedules without a network: each by itself, and all places of a group together.
//!
//! Finds: ranges outside of their buffers, concurrent steps that touch the same elements when one
//! of them writes, messages that no place receives, lengths that differ between the two ends, and
//! deadlock, with sends that complete at once ([`Sends::Buffered`]) or when they are received
//! ([`Sends::Blocking`]).

mod execution;
mod fault;
mod steps;

pub use execution::{Outcome, Place, Sends, Volume, execute};
pub use fault::Fault;
pub use steps::check_steps;
