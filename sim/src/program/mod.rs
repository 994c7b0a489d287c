//! What ranks do: a [`Program`] asks ([`Call`]) and is answered ([`Answer`]);
//! what it asks next depends on nothing else, so it is piecewise deterministic.
//! The same program runs on real engines (`job`) and on none
//! (`reference`).

mod call;

use refrain_ring::Rank;

pub use call::{Answer, Call, Ended, Found, From, RequestNumber, TakenNumber};

/// The least length of a message: what it says of itself (see [`Stamp`]).
pub const STAMP_BYTES: usize = 24;

/// What each message begins with, so that it can be told from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its sender.
    pub source: Rank,
    /// Its receiver.
    pub destination: Rank,
    /// Which message of this pair: from 0.
    pub number: u64,
    /// Everything that the sender's program had been told, as a hash.
    pub state: u64,
}
