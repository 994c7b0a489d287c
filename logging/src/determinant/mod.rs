//! Determinants: the logged outcomes of non-deterministic operations.
//!
//! The table in docs/design/protocol.md lists the operations that have one (Open MPI-V,
//! sections 2.3 and 3.2). The engine creates determinants where they happen, the
//! [`recorder`] merges and counts them, a [`batch`] carries them to the event
//! logger. The format is in docs/formats/event-format.md.
//!
//! A rank's determinants are numbered from 0 ([`EventIndex`]), over all its
//! incarnations: a gap is a loss, a repeated number is a duplicate.

pub mod batch;
mod checksum;
pub mod record;
pub mod recorded;
pub mod recorder;
pub mod row;

use core::fmt;
use refrain_ring::{Clock, Rank, Ssn};
use serde::{Deserialize, Serialize};

/// The number of a determinant of a rank, from 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct EventIndex(pub u64);

impl fmt::Display for EventIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A receive and its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matched {
    /// The receive, named by the clock at its post.
    pub request: Clock,
    /// The sender of its message.
    pub source: Rank,
    /// The SSN of its message.
    pub ssn: Ssn,
}

/// A match, possibly with the completion of just this receive: one record instead of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// The clock of the match or, if completed, of the operation that completed the receive.
    pub at: Clock,
    /// The receive and its message.
    pub matched: Matched,
    /// Whether the receive named its source: only `pessimist-classic` logs such a match.
    pub is_named: bool,
    /// Whether the operation at `at` completed the receive.
    pub is_completed: bool,
}

/// The outcome of one non-deterministic operation.
///
/// `at` is the clock of the rank's latest operation when the event
/// happened; it never decreases from one determinant to the next. `R` and `B` are the types of
/// its requests and bytes: the recorder stores those of all pending determinants in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Determinant<R = Vec<Clock>, B = Vec<u8>> {
    /// A receive was matched: with a source wildcard or, with `pessimist-classic`, any receive.
    Match(Match),
    /// A probe found a message.
    Probe {
        /// Clock of the operation.
        at: Clock,
        /// The sender of the message.
        source: Rank,
        /// The SSN of the message.
        ssn: Ssn,
        /// The tag of the message.
        tag: i32,
        /// The length of the message in bytes.
        bytes: u64,
    },
    /// A wait or test whose outcome depends on timing ended these requests, in
    /// this order.
    Completion {
        /// Clock of the operation.
        at: Clock,
        /// The requests, named by the clocks at their posts.
        requests: R,
        /// The set continues in the next determinant, which has the same clock.
        continues: bool,
    },
    /// A receive was cancelled before it was matched.
    Cancelled {
        /// Clock of the operation that cancelled it.
        at: Clock,
        /// The receive, named by the clock at its post.
        request: Clock,
    },
    /// An operation got a number from outside that another life would not get, such as
    /// the time.
    Number {
        /// Clock of the operation.
        at: Clock,
        /// Its series: below [`Determinant::SERIES`]. Consecutive numbers of one series are
        /// close to each other.
        series: u8,
        /// The number.
        value: i64,
    },
    /// An operation got bytes from outside that another life would not get.
    Bytes {
        /// Clock of the operation.
        at: Clock,
        /// The bytes: 1 to [`Determinant::BYTES_MAX`].
        bytes: B,
    },
    /// Consecutive probes, tests or cancels found nothing, with no
    /// success between them.
    Nothing {
        /// Clock of the last of them.
        at: Clock,
        /// Clock of the first of them.
        first: Clock,
        /// Number of them: at least 1.
        count: u64,
    },
}

impl Determinant {
    /// Maximum number of requests in one [`Determinant::Completion`]; further ones are
    /// in the next.
    pub const REQUESTS_MAX: usize = 256;
    /// Number of series of [`Determinant::Number`].
    pub const SERIES: u8 = 16;
    /// Maximum length of one [`Determinant::Bytes`] in bytes.
    pub const BYTES_MAX: usize = 256;
}

impl<R, B> Determinant<R, B> {
    /// The clock at which it happened, by which batches and acknowledgements are
    /// named.
    pub fn at(&self) -> Clock {
        match self {
            Self::Match(Match { at, .. })
            | Self::Probe { at, .. }
            | Self::Completion { at, .. }
            | Self::Cancelled { at, .. }
            | Self::Number { at, .. }
            | Self::Bytes { at, .. }
            | Self::Nothing { at, .. } => *at,
        }
    }
}
