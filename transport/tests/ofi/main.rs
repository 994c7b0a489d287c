//! The fabric `ofi` between real processes, and under real faults: peers that
//! are killed and come back, connections that break, peers that are stopped, and
//! frames of all lengths at which something changes.

mod broken;
mod inbox;
mod killed;
mod name;
mod peer;
mod process;
mod setting;
mod shared_memory;
mod silent;
mod sizes;
mod station;
