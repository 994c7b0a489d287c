//! Ranks that die and come back: nobody else rolls back, nothing is lost, nothing
//! comes twice, and everything comes in order. REC-3, REC-6, REC-7

mod by_chance;
mod job;
mod life;
mod program;
pub mod scenes;
mod unrecorded;
