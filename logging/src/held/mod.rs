//! Determinants in the memory of other ranks, for the protocols that use no event logger
//! (docs/design/events-at-ranks.md). Pure.
//!
//! Each batch of a rank goes to *holders*: to one rank in each of *f* other failure domains. A holder keeps it
//! until a checkpoint of its owner covers it. The owner keeps it, too: it gives it to another rank when a
//! holder dies.

mod attachment;
mod batch;
mod collected;
mod counts;
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

pub use batch::Batch;
pub use collected::{Collected, HeldError};
pub use counts::HeldCounts;
pub use holdings::{Gives, Holdings};
pub use losses::{Answers, Losses};
pub use row::Row;
pub use tolerance::Tolerance;

pub(crate) use attachment::{Incoming, Reader, Scratch, ToCarry, Wanted, Writer};
pub(crate) use collected::{Floor, answer};
pub(crate) use holdings::Waiting;
pub(crate) use lane::Message;
pub(crate) use recent::Made;
