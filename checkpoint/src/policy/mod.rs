//! Which rank takes the next checkpoint (MPICH-V2, section 4.6.2).
//!
//! A checkpoint of a rank frees what *others* have logged for it: what it has
//! received since its last one. It costs its own memory and what it has logged
//! itself and is not freed (LOG-5). The order of the ranks matters where traffic is not
//! symmetric. A policy chooses the rank; the caller chooses when. Pure: status and time come
//! in, a rank goes out.

mod choice;
mod order;
mod simulator;
mod traffic;

pub use choice::{Choice, NotAPolicy};
pub use order::Policy;
pub use simulator::{Comparison, Row, Settings, compare, simulate};
pub use traffic::Pattern;

use refrain_ring::Rank;

/// The status of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankStatus {
    /// The rank.
    pub rank: Rank,
    /// Bytes of messages that it has received since its last checkpoint.
    pub received_bytes: u64,
    /// Bytes that it has sent since then.
    pub sent_bytes: u64,
    /// Bytes in its own payload log that are not freed.
    pub log_bytes: u64,
    /// Bytes of its last checkpoint without that log; 0 where there was none.
    pub state_bytes: u64,
    /// When that was, or when it began; in the caller's unit.
    pub since: u64,
    /// Whether it can take one now: it lives, and takes none yet.
    pub is_ready: bool,
}
