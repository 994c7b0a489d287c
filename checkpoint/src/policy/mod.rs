//! Chooses the rank that takes the next checkpoint (MPICH-V2, section 4.6.2).
//!
//! A checkpoint of a rank frees the messages that *other* ranks have logged for it since its last
//! checkpoint. Its cost is the rank's memory and the part of the rank's own log that is not freed
//! (LOG-5). The order of the ranks matters if traffic is not symmetric. A policy chooses the rank;
//! the caller chooses the time. Pure: statuses and time are arguments, a rank is the result.

mod choice;
mod order;
mod simulator;
mod traffic;

pub use choice::{Choice, NotAPolicy};
pub use order::{Policy, RankStatus};
pub use simulator::{Comparison, Row, Settings, compare, simulate};
pub use traffic::Pattern;
