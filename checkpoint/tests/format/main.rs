//! The format: its worked example, round trips, every kind of damage.

#[path = "../fixed_seed/mod.rs"]
mod fixed_seed;

mod damage;
mod model;
mod strips;
mod worked_example;
