//! One-sided commits over real providers: client and logger are two processes.
//! Every libfabric that is there, every provider of it; what is not there is
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
