//! One rank of a job, without its process: joins the engine with a member of the protocol family
//! and with the disk under its log, and implements the calls of a program. The runtime, which has a
//! clock, sockets and threads, and the simulator, which has none, use the same code.
//!
//! Must not know: launchers, sockets, clocks, and where events become stable.

pub mod calls;
pub mod checkpoint;
pub mod collective;
pub mod dead_rank;
pub mod previous_logs;
pub mod protocol;
pub mod round;
pub mod spilling;
