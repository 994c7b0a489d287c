//! Whole jobs on libfabric: real processes, every workload, several providers,
//! the system's library and a second one (`REFRAIN_LIBFABRIC_SECOND`).

pub mod installed;
mod killed;
mod namespaces;
mod workloads;
