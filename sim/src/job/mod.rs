//! The job at work.

mod fabric;
mod injector;
mod launcher;
mod room;
mod stage;
mod store;

pub use injector::FaultCounts;
pub use stage::{Audience, Stage};
