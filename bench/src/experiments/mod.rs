//! Experiments with jobs that lose ranks (`refrain bench`): what recovery takes, and
//! what it costs the others.
//!
//! | folder | question | after |
//! |---|---|---|
//! | `re_execution` | how fast does a rank play its part again? | MPICH-V2, figure 10 |
//! | `faults` | how much longer does a run with 1 … 9 faults take? | MPICH-V2, figure 11 |
//! | `rollback` | one rank again, or all of them? | user-level message logging, table 2 |
//! | `survivors` | what do ranks lose that do not need the dead one? | |
//!
//! Each runs whole jobs of this very executable, in turn, several times, and shows
//! medians with quartiles. Every job must end with the line of one in which nothing
//! fails, or the experiment fails.

mod check;
mod error;
pub mod faults;
mod jobs;
pub mod re_execution;
mod report;
pub mod rollback;
mod summary;
pub mod survivors;

pub use check::{CheckArguments, check};
pub use error::ExperimentError;

/// 0 to `count`, each turn beginning with the next one: so that nobody is always
/// measured first.
fn rotated(count: usize, turn: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |index| (index + turn) % count)
}

fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e3
}
