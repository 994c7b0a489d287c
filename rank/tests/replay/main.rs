//! A rank plays its past again: real engines over a simulated network, records
//! by the real recorder. In each life the messages come at other times.
//!
//! `REFRAIN_SEED=n` runs one seed instead of the usual ones.

mod divergence;
mod job;
mod program;
mod random;
mod room;
mod sends;
mod shapes;
