//! The core of the pessimistic protocol, explored exhaustively: every order in
//! which receives, batches, acknowledgements, deaths and new lives of a small
//! job can come. docs/design/model-checking.md says what that shows, and what not.
//!
//! The transitions call the real pure cores, which are part of the state: the
//! gate, the pessimist with its recorder, the committer, the acceptor's rows.
//! Around them is only the world: programs, messages, connections, deaths. What
//! the server decides when a life joins is not a pure core; `joining` says it
//! once more.
//!
//! The explorer is of this crate: 200 lines without a dependency. *Else weighed:*
//! `stateright`, which is alive (0.31, July 2025), and does far more than is
//! needed here: actors, a web interface, linearizability.
//!
//! # Planted bugs
//!
//! Each is in the world around the real parts. Breadth first finds a shortest way.
//!
//! | bug | rule that breaks | steps to it | states seen |
//! |---|---|---|---|
//! | [`GateOpen`](Bug::GateOpen) | GATE-1 | 1 | 6 |
//! | [`QuorumOfOne`](Bug::QuorumOfOne) | GATE-1 | 3 | 50 |
//! | [`NoFence`](Bug::NoFence) | FENCE-1 | 4 | 50 |
//! | [`RunsAtOnce`](Bug::RunsAtOnce) | GATE-1 | 5 | 193 |
//! | [`SurveyOfOne`](Bug::SurveyOfOne) | GATE-1, EL-5 | 8 | 1,095 |
//! | [`ShortestAnswer`](Bug::ShortestAnswer) | GATE-1, EL-5 | 9 | 935 |
//! | [`TrimAtNewest`](Bug::TrimAtNewest) | GC-1 | 9 | 1,480 |
//! | [`AnyIncarnation`](Bug::AnyIncarnation) | EL-1 | 11 | 2,395 |
//!
//! # The restart exchange
//!
//! Its place is `World::let_out`: what a life has said is there at once for whoever
//! begins anew, as if peers had answered (REC-3).

mod action;
pub(crate) mod explorer;
mod joining;
mod model;
mod process;
mod replica;
mod rules;
mod size;
mod world;

pub use explorer::{Counterexample, Exploration};
pub use size::{Bug, Joining, Operation, Reading, Size};

/// Explores all of the protocol at a size, or as far as to a broken rule.
pub fn run(size: &Size) -> Exploration {
    explorer::explore(&model::Core(size.clone()))
}
