//! `refrain run --host` over OpenSSH: with its own server on its own ports, with its own keys and
//! settings, and its own client. No file of the user is read.

mod endings;
mod jobs;
mod refusals;
mod server;
