//! The deterministic simulation of a whole job: ranks, event loggers, checkpoint
//! store, launcher, network and disks in one thread, driven by one seed.
//!
//! The real engine, matching, gate, recorder, payload log, spilling log, committer and acceptor run
//! over a simulated fabric, simulated disks and simulated time. The protocol is not implemented a
//! second time: each oracle states its rule independently.
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | the plan that follows from a seed: program, shape, faults; can be shrunk |
//! | [`program`] | the programs of ranks: calls, and the use of their answers |
//! | [`collective`] | collectives: shapes, calls of members, results by the plainest reference |
//! | [`world`] | ranks, launcher and network, driven by a seed or by an explorer |
//! | [`loggers`], [`checkpoints`] | event loggers, their disks and connections; the checkpoint store |
//! | [`saved`] | the state with which a life begins: the beginning of its program, or a checkpoint |
//! | [`recollect`] | what a later life collects before the replay of its program |
//! | [`happening`] | the observed steps of a job |
//! | [`crash_point`] | the effects of a process, and its death before or after any of them |
//! | [`choices`] | the outcomes in the records of a rank |
//! | [`oracle`] | the rules of a job, checked at each happening and at its end |
//! | [`mod@reference`] | the same program with the same choices, without an engine |
//! | [`model`] | the pure cores of the protocol in every order of events, without engines |
//! | [`holders`] | what ranks hold of each other's events, in every order, without engines |
//! | [`explorer`] | all states that a model can reach, breadth first |
//! | [`planted`] | bugs that oracles must find |
//!
//! Knows nothing of: real time, real I/O.

pub mod checkpoints;
pub mod choices;
pub mod collective;
pub mod control;
pub mod crash_point;
pub mod explorer;
pub mod happening;
mod held;
pub mod holders;
pub mod loggers;
pub mod model;
pub mod oracle;
pub mod plan;
pub mod planted;
pub mod program;
pub mod recollect;
pub mod reference;
pub mod saved;
pub mod shrink;
pub mod world;
