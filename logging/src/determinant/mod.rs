//! Determinants: the logged outcomes of non-deterministic operations.
//!
//! Which operations have one is the table of docs/design/protocol.md (Open MPI-V,
//! sections 2.3 and 3.2); the engine creates them where they happen, the
//! [`recorder`] merges and counts them, a [`batch`] carries them to the event
//! logger. The format is in docs/formats/event-format.md.
//!
//! A rank's determinants are numbered from 0 ([`EventIndex`]), over all its
//! incarnations: a gap is a loss, a number met twice is a repetition.

pub mod batch;
mod checksum;
pub mod record;
pub mod recorded;
pub mod recorder;
pub mod row;

use core::fmt;
use refrain_ring::{Clock, Rank, Ssn};
use serde::{Deserialize, Serialize};

/// The place of a determinant among those of its rank, from 0.
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
    /// The receive: the clock at its post.
    pub request: Clock,
    /// The sender of its message.
    pub source: Rank,
    /// The number of its message.
    pub ssn: Ssn,
}

/// A match, perhaps with the completion of just this receive: one record instead of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// When it happened, or the operation that completed the receive.
    pub at: Clock,
    /// The receive and its message.
    pub matched: Matched,
    /// The receive named its source: only `pessimist-classic` logs it.
    pub is_named: bool,
    /// The operation at `at` completed the receive.
    pub is_completed: bool,
}

/// The outcome of one non-deterministic operation.
///
/// `at` is the clock of the rank's operation that was the latest when it
/// happened; it never decreases from one determinant to the next. `R` and `B` hold its
/// requests and bytes: the recorder keeps those of all pending determinants in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Determinant<R = Vec<Clock>, B = Vec<u8>> {
    /// A receive was matched: one from any source, or, with `pessimist-classic`, any.
    Match(Match),
    /// A probe found a message.
    Probe {
        /// The operation.
        at: Clock,
        /// The sender of the message.
        source: Rank,
        /// Which one.
        ssn: Ssn,
        /// Its tag.
        tag: i32,
        /// Its length.
        bytes: u64,
    },
    /// A wait or test whose outcome depends on timing ended these requests, in
    /// this order.
    Completion {
        /// The operation.
        at: Clock,
        /// The requests, by the clocks at their posts.
        requests: R,
        /// The set continues in the next determinant, which has the same clock.
        continues: bool,
    },
    /// A receive was taken back before it was matched.
    Cancelled {
        /// The operation that did so.
        at: Clock,
        /// The receive: the clock at its post.
        request: Clock,
    },
    /// An operation got a number from outside that another life would not get:
    /// the time, for instance.
    Number {
        /// The operation.
        at: Clock,
        /// Its series: below [`Determinant::SERIES`]. Numbers of one series are
        /// close to each other.
        series: u8,
        /// The number.
        value: i64,
    },
    /// An operation got bytes from outside that another life would not get.
    Bytes {
        /// The operation.
        at: Clock,
        /// The bytes: 1 to [`Determinant::BYTES_MAX`].
        bytes: B,
    },
    /// Probes, tests or cancels found nothing, one after the other, with no
    /// success between them.
    Nothing {
        /// The last of them.
        at: Clock,
        /// The first of them.
        first: Clock,
        /// How many: at least 1.
        count: u64,
    },
}

impl Determinant {
    /// Requests that one [`Determinant::Completion`] names at most; more are
    /// continued in the next.
    pub const REQUESTS_MAX: usize = 256;
    /// Number of series of [`Determinant::Number`].
    pub const SERIES: u8 = 16;
    /// Bytes of one [`Determinant::Bytes`] at most.
    pub const BYTES_MAX: usize = 256;
}

impl<R, B> Determinant<R, B> {
    /// When it happened: the clock that batches and acknowledgements are named
    /// by.
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
