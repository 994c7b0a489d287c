//! The server, asked by a raw client: over threads of this process, and over
//! processes that are killed.

#[path = "../batches/mod.rs"]
mod batches;
mod catch_up;
mod commits;
mod fencing;
mod hostile;
mod killed;
mod listening;
mod quiet;
mod rank;
mod sealed;
mod serving;
