//! The core of the pessimistic protocol, explored exhaustively.

mod action;
mod explorer;
mod joining;
mod model;
mod process;
mod replica;
mod rules;
mod size;
mod world;

pub use explorer::{Counterexample, Exploration, explore};
pub use model::Core;
pub use size::{Bug, Joining, Operation, Reading, Size};

/// Explores one size of the protocol, all of it.
pub fn run(size: &Size) -> Exploration {
    explore(&Core(size.clone()), u64::MAX)
}
