//! A rank replays its earlier lives: real engines over a simulated network, records by the real
//! recorder, scene by scene. Random programs, cut behind every record, are the simulator's
//! (`sim/tests/jobs.rs`).

mod divergence;
mod job;
#[path = "../../../sim/src/world/room.rs"]
mod room;
mod sends;
mod shapes;
