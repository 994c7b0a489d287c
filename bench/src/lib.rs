//! Measurements and workloads: the NetPIPE-style sweep, programs that exercise
//! a job, and (in `benches/`) criterion benchmarks of the hot structures.
pub mod netpipe;
pub mod workload;
