//! A rank replays its earlier lives: real engines over a simulated network, and records by the real
//! recorder, in chosen scenes. The simulator (`sim/tests/jobs.rs`) runs random programs, killed
//! after every record.

mod divergence;
mod job;
#[path = "../../../sim/src/world/room.rs"]
mod room;
mod sends;
mod shapes;
