//! Logs that were written by a `ChannelLog`, read again from files and memory.

mod damage;
#[path = "../../ring/tests/fixed_seed/mod.rs"]
mod fixed_seed;
mod folder;
mod model;
mod shared;
mod worked_example;
mod written;
