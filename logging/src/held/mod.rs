//! Determinants in the memory of other ranks, for the protocols that use no event logger
//! (docs/design/events-at-ranks.md). Pure.
//!
//! A rank's batches go to *holders*, each to as many as domains may be gone at once; a holder keeps them
//! until a checkpoint of their owner covers them. The owner keeps them, too: it gives them to another rank
//! when a holder dies.

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
