//! The point-to-point engine, over the simulated network: what a program sees,
//! what leaves a rank and when, and what is left when requests are given up.
//!
//! `REFRAIN_SEED=n` puts one rough network in the place of the usual ones.

mod cancel;
mod damage;
mod detach;
mod determinism;
mod disk;
mod events;
mod gate;
mod horizon;
mod landing;
mod landing_lost;
mod layouts;
mod lives;
mod log_memory;
mod matching_order;
mod memory;
mod mixed;
mod networks;
mod operations;
mod probes;
mod read_back;
mod recorder;
mod rig;
#[path = "../seed/mod.rs"]
mod seed;
mod sizes;
mod spilling;
mod staging;
mod synchronous;
mod to_self;
mod truncation;
mod unexpected;
mod waits;
