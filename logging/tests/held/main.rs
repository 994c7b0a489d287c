//! Determinants in the memory of other ranks: rows, what is collected of them, the protocol
//! `ticket`, what messages carry with `causal`, and what the launcher knows of deaths.

mod batches;
mod carried;
mod collected;
#[path = "../spill/fixed_seed.rs"]
mod fixed_seed;
mod lanes;
mod losses;
mod network;
mod rows;
mod tickets;
