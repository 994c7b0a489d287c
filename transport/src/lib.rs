//! The point-to-point engine and the fabrics below it.
//!
//! The engine gives MPI's point-to-point semantics (contexts, tags, wildcards,
//! probes, requests) over a [`Fabric`](fabric::Fabric). It packs each message
//! into the sender's log ring and posts it from there; it knows nothing of
//! logging protocols beyond the small trait in [`protocol`], and nothing of
//! files, launchers or collective operations.
//!
//! Promises: matching and protocol decisions are deterministic given the order
//! of calls and arrivals (no clock, thread or randomness inside); no allocation,
//! lock or system call on the path of a small message once warm; all that
//! other ranks can see passes one [`gate`].

pub mod control;
pub mod divergence;
pub mod engine;
pub mod fabric;
pub mod gate;
pub mod layout;
pub mod matching;
pub mod protocol;
pub mod recorded;
pub mod spill;
