//! The two sides of a lane: numbers, credits, acknowledgements and frames to send
//! again. Pure: time is an argument, messages to send are results.
//!
//! The log is the buffer for sending again: a frame stays in it until the
//! receiver has acknowledged it. So a lane survives a connection that
//! breaks under it, and nothing depends on the meaning of a provider's completion of a
//! message (`ofi_rxm` accepts `FI_DELIVERY_COMPLETE` and ignores it).
//!
//! - [`Sending`] numbers frames and sends at most `credits` more than were taken,
//!   so that a receiver is never overrun.
//! - [`Receiving`] takes frames in the order of their numbers and counts them. A
//!   number too high shows that frames are missing; one too low is a duplicate.
//! - [`Patience`] says when to ask a silent peer, and when to give it up.

mod patience;
mod receiving;
mod sending;
#[cfg(test)]
mod tests;

pub use patience::{Patience, Step};
pub use receiving::{Counters, HeldFrame, Owed, Receiving};
pub use sending::{Overclaim, Sending, Sent};
