//! One rank of a job, without its process: the engine joined with a member of
//! the protocol family and with the disk under its log, and what the calls of a
//! program come to. The same in the runtime, which has a clock, sockets and
//! threads, and in the simulator, which has none.
//!
//! Knows nothing of: launchers, sockets, clocks; where events become stable.

pub mod calls;
pub mod checkpoint;
pub mod dead_rank;
pub mod previous_logs;
pub mod protocol;
pub mod spilling;
