//! The two sides of a lane: numbers, credits, acknowledgements and frames to send again. Pure: time
//! is an argument, and messages to send are results.
//!
//! A frame stays in the log, from which it can be sent again, until the receiver has acknowledged
//! it. So a lane survives a connection that breaks under it, and nothing depends on the meaning of
//! a provider's completion of a message (`ofi_rxm` accepts `FI_DELIVERY_COMPLETE` and ignores it).
//!
//! - [`Sending`] numbers frames and sends at most `credits` frames beyond those that were taken, so
//!   that a receiver is never overrun.
//! - [`Receiving`] takes frames in the order of their numbers and counts them. A number that is too
//!   high shows that frames are missing; a number that is too low shows a duplicate.
//! - [`Patience`] decides when to ask a silent peer, and when to give it up.

mod patience;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

pub use patience::{Patience, Step};
pub use receiving::{Counters, HeldFrame, Owed, Receiving};
pub use sending::{Overclaim, Sending, Sent};
