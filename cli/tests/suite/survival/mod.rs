//! Whole jobs whose ranks and event loggers are killed: every job ends with the line of a job
//! without failures, and leaves nothing behind.
//!
//! Each module has one kind of deaths. Kills at a clock always hit; those after some seconds hit
//! or miss, depending on the machine's speed: for these a batch asserts that many hit.
//! `REFRAIN_SURVIVAL_SEEDS=7,8,9` adds random jobs.

mod at_ranks;
mod batch;
mod beside_loggers;
mod chance;
mod checkpoints;
mod clocks;
mod collectives;
mod contradictions;
pub mod leftovers;
mod libfabric;
mod loggers;
mod logs;
mod orders;
mod output;
mod pauses;
mod program;
mod random;
mod sets;
mod several;

pub use batch::seeds;
