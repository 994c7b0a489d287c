//! A simulated control plane of jobs that no machine here can run: the launcher and one agent on each
//! host, as a tree. It gives the time to start the job, to tell a death, and to start a rank again, with the
//! messages and the memory of agents and launcher.
//!
//! Real are the messages of ranks and their lengths (they are encoded), and who is told of which rank
//! ([`Introductions`], the launcher's own). Simulated are processes, hosts, links and time ([`Costs`]).
//! With few hosts the launcher that is built reaches each agent directly: that is the tree whose fan-out is
//! the number of agents, in which the launcher decides. With more it decides alone, too, and agents pass its
//! messages on (docs/design/agent-tree.md). In the deeper trees of this simulation each agent decides
//! for its own ranks; that is not built.
//!
//! Deterministic: no clock and no random numbers. Docs: docs/design/many-ranks.md.
//!
//! [`Introductions`]: refrain_job::introductions::Introductions

mod costs;
mod job;
mod lengths;
mod network;
mod shape;
mod tree;

pub use costs::Costs;
pub use job::{Figures, Phase, run};
pub use shape::Shape;

#[cfg(test)]
mod tests;
