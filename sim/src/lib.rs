//! The deterministic simulation of a whole job: ranks, event loggers, launcher,
//! network and disks in one thread, driven by one seed. Empty today: what exists
//! of it is the simulated fabric (`refrain_transport::fabric::sim`) and the tests
//! of the engine on it.
//!
//! Knows nothing of: real time, real I/O.
