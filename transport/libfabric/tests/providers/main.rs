//! Tests of every provider that can run on one machine, with every available libfabric.
//!
//! Two endpoints are in one process; both are polled in turn, since most providers make progress
//! only in calls.

mod bytes;
mod closing;
mod messages;
mod offers;
mod pair;
mod peers;
mod processes;
mod remote_memory;
mod waiting;
