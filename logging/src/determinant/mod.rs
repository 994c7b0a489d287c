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
pub mod recorder;
pub mod row;
pub mod told;

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

/// Which message a receive was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matched {
    /// The receive: the clock at its post.
    pub request: Clock,
    /// Whose message it got.
    pub source: Rank,
    /// Which one.
    pub ssn: Ssn,
}

/// The outcome of one non-deterministic operation.
///
/// `at` is the clock of the rank's operation that was the latest when it
/// happened; it never decreases from one determinant to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Determinant {
    /// A receive was matched: one from any source, or, with
    /// `pessimist-classic`, any.
    Match {
        /// When.
        at: Clock,
        /// Of what with what.
        matched: Matched,
        /// The receive named its source: only `pessimist-classic` logs it.
        is_named: bool,
    },
    /// A match, and the completion of just this receive by the operation at
    /// `at`: one record instead of two.
    MatchCompleted {
        /// The operation that completed it.
        at: Clock,
        /// Of what with what.
        matched: Matched,
        /// As in [`Determinant::Match`].
        is_named: bool,
    },
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
        requests: Vec<Clock>,
        /// The set goes on in the next determinant, which has the same clock.
        continues: bool,
    },
    /// A receive was taken back before it was matched.
    Cancelled {
        /// The operation that did so.
        at: Clock,
        /// The receive: the clock at its post.
        request: Clock,
    },
    /// An operation was given a number that another life would not be given again:
    /// the time, for instance.
    Number {
        /// The operation.
        at: Clock,
        /// What it asked for: below [`Determinant::LANES`]. Numbers of one lane are
        /// close to each other.
        lane: u8,
        /// What it was given.
        value: i64,
    },
    /// An operation was given bytes that another life would not be given again.
    Bytes {
        /// The operation.
        at: Clock,
        /// What it was given: 1 to [`Determinant::BYTES_MAX`].
        bytes: Vec<u8>,
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
    /// Lanes of [`Determinant::Number`].
    pub const LANES: u8 = 16;
    /// Bytes of one [`Determinant::Bytes`] at most.
    pub const BYTES_MAX: usize = 256;

    /// When it happened: the clock that batches and acknowledgements are named
    /// by.
    pub fn at(&self) -> Clock {
        match self {
            Self::Match { at, .. }
            | Self::MatchCompleted { at, .. }
            | Self::Probe { at, .. }
            | Self::Completion { at, .. }
            | Self::Cancelled { at, .. }
            | Self::Number { at, .. }
            | Self::Bytes { at, .. }
            | Self::Nothing { at, .. } => *at,
        }
    }
}
