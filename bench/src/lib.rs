//! Measurements and workloads: the NetPIPE-style sweep, the time of collectives, the speed of a disk alone and of a log
//! that spills to it, experiments with jobs that lose ranks, programs that exercise a job, and (in
//! `benches/`) criterion benchmarks of the hot structures.
mod buffer;
pub mod checkpoint_policies;
pub mod collectives;
pub mod disk;
pub(crate) mod drawing;
pub mod error;
pub mod event_bench;
pub mod experiments;
pub mod family;
pub mod interrupt;
mod job;
pub mod log_bench;
mod machine;
pub mod mpi;
mod mpi_libraries;
pub mod netpipe;
mod report;
pub mod soak;
mod summary;
pub mod workload;
