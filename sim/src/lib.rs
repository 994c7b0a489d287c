//! The deterministic simulation of a whole job: ranks, event loggers, launcher,
//! network and disks in one thread, driven by one seed. Empty today: what exists
//! of it is the simulated fabric (`refrain_transport::fabric::sim`), the tests of the
//! engine on it, and `tests/gate`: ranks and event loggers that die.
//!
//! Knows nothing of: real time, real I/O.
