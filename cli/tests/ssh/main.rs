//! `refrain run --host` by OpenSSH: its own server on ports of its own, with keys
//! and settings of its own, and its own client. Nothing of the user's is read.

#[path = "../libfabric/installed.rs"]
mod installed;
#[path = "../launched/mod.rs"]
mod launched;
#[path = "../two_hosts/mod.rs"]
mod two_hosts;

mod endings;
mod jobs;
mod refusals;
mod server;
