//! `refrain run --host` over OpenSSH: with its own server on its own ports, with its own keys and
//! settings, and its own client. No file of the user is read.

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
