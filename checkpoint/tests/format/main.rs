//! The format: its example, whatever is packed, every kind of damage.

#[path = "../fixed_seed/mod.rs"]
mod fixed_seed;

mod damage;
mod model;
mod strips;
mod worked_example;
