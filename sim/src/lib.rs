//! The deterministic simulation of a whole job: ranks, event loggers, checkpoint
//! store, launcher, network and disks in one thread, driven by one seed.
//!
//! The real engine, matching, gate, recorder, payload log, spilling log, committer
//! and acceptor, over simulated fabric, disks and time. Nothing of the protocol
//! is written here a second time: what an oracle needs to know of it, it states
//! by itself and in another way.
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | what a seed stands for: program, shape, faults; can be shrunk |
//! | [`program`] | what ranks do: calls, and what they make of the answers |
//! | `job` | the job at work: one effect after the other |
//! | `loggers` | event loggers, their disks and the ways to them |
//! | [`happening`] | what is seen of a job |
//! | `oracle` | what must be true of it, always and at its end |
//! | `reference` | the same program with the same choices, without any engine |
//! | [`exhaustive`] | the protocol's core in every order of events, for a small job |
//! | [`restart`] | real engines of a small job, restarted in every order of events |
//! | [`planted`] | bugs that the oracles must find |
//!
//! Knows nothing of: real time, real I/O.

pub mod checkpoints;
pub mod exhaustive;
pub mod happening;
pub mod interposed;
pub mod job;
pub mod loggers;
pub mod mortal;
pub mod oracle;
pub mod plan;
pub mod planted;
pub mod program;
pub mod recollect;
pub mod reference;
pub mod restart;
pub mod shrink;
