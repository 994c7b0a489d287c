//! Restarts, explored exhaustively: lives that die at every moment and meet again in
//! every order, with the real engines, protocol, records and checkpoints, over the
//! simulated fabric. docs/design/model-checking.md says what that shows, and what not.
//!
//! | module | what |
//! |---|---|
//! | `size` | how large, and which bug is planted |
//! | `action` | what may happen next |
//! | `world` | what happens then: launcher, network, what is stable |
//! | `life`, `image` | a life of a rank: engine and program; its checkpoints |
//! | `wire`, `desk` | under the engine: its end of the network, its events |
//! | `ghost`, `rules` | what left in any life, and what must be true |
//! | `print` | a hash of a state |
//! | `model` | all that for the explorer: a state is the way to it |

mod action;
mod desk;
mod ghost;
mod image;
mod life;
mod memories;
mod model;
mod print;
mod rules;
mod size;
mod wire;
mod world;

pub use crate::exhaustive::{Counterexample, Exploration};
pub use size::{Bug, Operation, Order, Size};

/// Explores all restarts of a size, or as far as to a broken rule.
pub fn run(size: &Size) -> Exploration {
    crate::exhaustive::explorer::explore(&model::Restarts(size.clone()))
}
