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
//! | [`world`] | ranks, launcher and network at work, driven by a seed or by an explorer |
//! | [`loggers`], [`checkpoints`] | event loggers, their disks and connections; the checkpoint store |
//! | [`saved`] | where a life begins: its program's beginning, or a checkpoint |
//! | [`recollect`] | what a later life collects before its program is replayed |
//! | [`happening`] | what is seen of a job |
//! | [`crash_point`] | effects of a process, and its death before or after any of them |
//! | [`choices`] | what its records say of a rank |
//! | [`oracle`] | what must be true of it, always and at its end |
//! | [`mod@reference`] | the same program with the same choices, without any engine |
//! | [`model`] | the pure cores of the protocol in every order of events, without engines |
//! | [`explorer`] | all states that a model can reach, breadth first |
//! | [`planted`] | bugs that oracles must find |
//!
//! Knows nothing of: real time, real I/O.

pub mod checkpoints;
pub mod choices;
pub mod crash_point;
pub mod explorer;
pub mod happening;
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
