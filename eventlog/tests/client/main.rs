//! The client: its core against a model, its links against a scripted logger
//! and against the real one.

#[path = "../fixed_seed/mod.rs"]
mod fixed_seed;

mod batches;
mod committer;
mod faults;
mod killed;
mod levels;
mod links;
mod prepared;
mod process;
mod reading;
mod retrying;
mod scripted;
