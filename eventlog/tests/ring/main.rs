//! A ring against a model: a queue of batches.

#[path = "../batches/mod.rs"]
mod batches;
#[path = "../fixed_seed/mod.rs"]
mod fixed_seed;
mod model;
mod slots;
