//! What a rank has given to others, in numbers: for statistics.

use core::hash::{Hash, Hasher};

/// Counters of one life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldCounts {
    /// Determinants in attachments and carriers; one that goes to several ranks counts each time. CAUSAL-1
    pub carried: u64,
    /// Bytes of attachments and carriers.
    pub carried_bytes: u64,
    /// Determinants given on the control lane, each time. TICKET-1, CAUSAL-3
    pub given: u64,
    /// Bytes on the control lane: batches, confirmations, trims.
    pub told_bytes: u64,
}

/// Hashes nothing: what happens next does not depend on it.
impl Hash for HeldCounts {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
