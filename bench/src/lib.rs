//! Measurements and workloads: the NetPIPE-style sweep, the log's disk alone and
//! under a log, programs that exercise a job, and (in `benches/`) criterion
//! benchmarks of the hot structures.
pub mod disk;
pub mod event_bench;
pub mod interrupt;
pub mod log_bench;
pub mod netpipe;
mod resident;
pub mod workload;
