//! Ranks that die and come back, scene by scene: nobody else rolls back, nothing is lost,
//! nothing comes twice, and everything comes in order. REC-3, REC-6, REC-7
//!
//! Programs and deaths by chance, and a death at every effect, are the simulator's
//! (`sim/tests/jobs.rs`).

mod life;
pub mod scenes;
mod unrecorded;
