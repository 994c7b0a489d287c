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
pub use order::{Policy, RankStatus};
pub use simulator::{Comparison, Row, Settings, compare, simulate};
pub use traffic::Pattern;
