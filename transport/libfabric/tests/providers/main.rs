//! Every provider that can run on one machine, of every libfabric there is.
//!
//! Two endpoints in one process; both are polled in turn, as most providers
//! move operations along only while they are called.

mod bytes;
mod closing;
mod messages;
mod offers;
mod pair;
mod peers;
mod processes;
mod remote_memory;
mod waiting;
