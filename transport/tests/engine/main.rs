//! The point-to-point engine, over the simulated network: the results that a program gets, the
//! frames that leave a rank and when, and the state after requests are given up.
//!
//! `REFRAIN_SEED=n` replaces the usual networks by one rough network.

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
mod publishing;
mod read_back;
mod recorder;
mod rig;
#[path = "../seed/mod.rs"]
mod seed;
mod sets;
mod sizes;
mod spilling;
mod staging;
mod synchronous;
mod to_self;
mod truncation;
mod unexpected;
mod waits;
mod windows;
