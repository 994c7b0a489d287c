//! Results of calls, which of them are events, and where events become stable: the real engine and
//! protocol, over a simulated network.

mod blocking;
mod checkpoints;
mod empty;
mod given;
mod pair;
mod rounds;
mod saved_log;
mod several;
