//! Whole jobs whose ranks and event loggers are killed: every job ends with the
//! line of one in which nothing fails, and leaves nothing behind.
//!
//! Each module is one kind of deaths. Kills at a clock hit for sure; those after
//! some seconds hit or not, as the machine is: of these a batch asserts that many
//! did. `REFRAIN_SURVIVAL_SEEDS=7,8,9` adds random jobs.

#[path = "../launched/mod.rs"]
mod launched;

mod batch;
mod chance;
mod checkpoints;
mod clocks;
mod contradictions;
mod leftovers;
mod libfabric;
mod loggers;
mod logs;
mod orders;
mod output;
mod pauses;
mod program;
mod random;
mod several;
