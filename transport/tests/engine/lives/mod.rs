//! Ranks that die and come back, scene by scene: no other rank rolls back, no message is lost or
//! arrives twice, and all messages arrive in order. REC-3, REC-6, REC-7
//!
//! Random programs and deaths, and a death at every effect, are tested in the simulator
//! (`sim/tests/jobs.rs`).

pub mod life;
pub mod scenes;
mod unrecorded;
