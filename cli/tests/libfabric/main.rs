//! Whole jobs on libfabric: real processes, every workload, several providers,
//! the system's library and a second one (`REFRAIN_LIBFABRIC_SECOND`).

#[path = "../launched/mod.rs"]
mod launched;
#[path = "../two_hosts/mod.rs"]
mod two_hosts;

mod installed;
mod killed;
mod namespaces;
mod workloads;
