//! Policies for checkpoints: whom they order, and what comes of it.

#[path = "../fixed_seed/mod.rs"]
mod fixed_seed;

mod order;
mod simulated;
