//! placeholder
pub mod netpipe;
pub mod workload;
