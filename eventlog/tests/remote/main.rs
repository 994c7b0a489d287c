//! One-sided commits over real providers: client and logger are two processes.
//! Every available libfabric, and each of its providers; unavailable ones are
//! printed as skipped.

mod client;
mod ending;
mod harness;
mod hostile;
mod joining_often;
mod placing;
mod server;
mod sleeping;
mod whole;
