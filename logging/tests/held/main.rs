//! Determinants in the memory of other ranks: rows, what is collected of them, the protocol
//! `ticket`, and what the launcher knows of deaths.

mod batches;
mod carriers;
mod collected;
#[path = "../spill/fixed_seed.rs"]
mod fixed_seed;
mod losses;
mod network;
mod rows;
mod tickets;
