//! A rank plays its past again: real engines over a simulated network, records by the real
//! recorder, scene by scene. Random programs, cut behind every record, are the simulator's
//! (`sim/tests/jobs.rs`).

mod divergence;
mod job;
mod room;
mod sends;
mod shapes;
