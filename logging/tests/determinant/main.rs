//! Determinants from the event to the batch and back.

mod batches;
mod collected;
mod damage;
#[path = "../spill/fixed_seed.rs"]
mod fixed_seed;
mod foreseen;
mod model;
mod plain_reader;
mod random_runs;
mod recorder;
mod rows;
mod sizes;
mod story;
mod worked_example;
