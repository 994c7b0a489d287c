//! Determinants in the memory of other ranks, for the protocols that use no event logger
//! (docs/design/events-at-ranks.md). Pure.
//!
//! Each batch of a rank goes to *holders*: to one rank in each of *f* other failure domains. A holder keeps it
//! until a checkpoint of its owner covers it. The owner keeps it, too: it gives it to another rank when a
//! holder dies.

mod attachment;
mod batch;
mod beside;
mod collected;
mod counts;
mod floor;
mod giving;
mod holders;
mod holdings;
mod lane;
mod losses;
#[cfg(feature = "test-doubles")]
mod planted;
mod recent;
mod row;
mod tolerance;
mod trimming;

pub use batch::Batch;
pub use beside::AtRanks;
pub use collected::{Collected, HeldError};
pub use counts::HeldCounts;
pub use holdings::{Gives, Holdings};
pub use losses::{Answers, Losses};
pub use row::Row;
pub use tolerance::Tolerance;

pub(crate) use attachment::{Incoming, Reader, Scratch, ToCarry, Wanted, Writer};
pub(crate) use collected::answer;
pub(crate) use floor::Floor;
pub(crate) use holdings::Waiting;
pub(crate) use lane::Message;
pub(crate) use recent::Made;
