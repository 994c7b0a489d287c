//! Policies for checkpoints: which ranks they choose, and the results in simulations.

#[path = "../fixed_seed/mod.rs"]
mod fixed_seed;

mod order;
mod simulated;
