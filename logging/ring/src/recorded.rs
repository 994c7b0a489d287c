//! Results of earlier lives for a replay: the message of each receive, the outcome of
//! each operation whose outcome depends on timing, and the values that the program got from
//! outside. Used by the engine, which replays, and by `logging`, which reads
//! determinants. REC-4

use crate::{Clock, Rank, Ssn};
use core::fmt;
use std::collections::BTreeMap;

/// The recorded result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedReceive {
    /// No record.
    Open,
    /// The receive gets this message, whatever other messages arrive before.
    Gets {
        /// The sender of the message.
        source: Rank,
        /// The SSN of the message.
        ssn: Ssn,
    },
    /// The receive is cancelled, and gets no message.
    Cancelled,
}

/// The recorded outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedOutcome {
    /// No record: any outcome is valid.
    Open,
    /// The operation found nothing, or its outcome does not depend on timing.
    Nothing,
    /// A probe found this message.
    Found {
        /// The sender of the message.
        source: Rank,
        /// The SSN of the message.
        ssn: Ssn,
        /// The tag of the message.
        tag: i32,
        /// The length of the message in bytes.
        bytes: u64,
    },
    /// The operation completed these requests in this order, named by the clocks at their posts.
    Ended(Vec<Clock>),
    /// The operation cancelled the receive that was posted at this clock.
    Cancelled(Clock),
    /// The operation got this number from outside.
    Number {
        /// The series of the number.
        series: u8,
        /// The number.
        value: i64,
    },
    /// The operation got these bytes from outside.
    Bytes(Vec<u8>),
}

impl fmt::Display for RecordedReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => write!(f, "it has no record"),
            Self::Gets { source, ssn } => {
                write!(
                    f,
                    "it was a receive that got message {ssn} of rank {source}"
                )
            }
            Self::Cancelled => write!(f, "it was a receive that was cancelled"),
        }
    }
}

impl fmt::Display for RecordedOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => write!(f, "it has no record"),
            Self::Nothing => write!(f, "it found nothing"),
            Self::Found { source, ssn, .. } => {
                write!(
                    f,
                    "it was a probe that found message {ssn} of rank {source}"
                )
            }
            Self::Ended(requests) => {
                let count = requests.len();
                write!(f, "it was a wait or test that ended {count} requests")
            }
            Self::Cancelled(request) => {
                write!(f, "it cancelled the receive of operation {request}")
            }
            Self::Number { series, .. } => write!(f, "it asked for number {series} (0: the time)"),
            Self::Bytes(bytes) => write!(f, "it asked for {} bytes", bytes.len()),
        }
    }
}

/// The contents of the per-rank event log of a rank, from the clock on at which the rank
/// begins.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RecordedEvents {
    receives: BTreeMap<Clock, RecordedReceive>,
    outcomes: BTreeMap<Clock, RecordedOutcome>,
    before: Clock,
}

impl fmt::Debug for RecordedEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedEvents")
            .field("before", &self.before)
            .field("receives", &self.receives.len())
            .field("outcomes", &self.outcomes.len())
            .finish_non_exhaustive()
    }
}

impl RecordedEvents {
    /// Clock before which everything is recorded: an earlier operation without a recorded outcome
    /// found nothing.
    pub fn before(&self) -> Clock {
        self.before
    }

    /// The recorded result of the receive that is posted at this clock.
    pub fn receive(&self, request: Clock) -> RecordedReceive {
        let receive = self.receives.get(&request);
        receive.copied().unwrap_or(RecordedReceive::Open)
    }

    /// The recorded outcome of the operation at this clock.
    pub fn at(&self, clock: Clock) -> RecordedOutcome {
        match self.outcomes.get(&clock) {
            Some(outcome) => outcome.clone(),
            None if clock < self.before => RecordedOutcome::Nothing,
            None => RecordedOutcome::Open,
        }
    }

    /// Whether an operation from `first` to `last`, inclusive, has a recorded outcome.
    pub fn any_outcome(&self, first: Clock, last: Clock) -> bool {
        self.outcomes.range(first..=last).next().is_some()
    }

    /// Notes that everything before this clock is recorded.
    pub fn raise_before(&mut self, clock: Clock) {
        self.before = self.before.max(clock);
    }

    /// Records a receive; returns whether it had no record before.
    pub fn add_receive(&mut self, request: Clock, receive: RecordedReceive) -> bool {
        self.receives.insert(request, receive).is_none()
    }

    /// Records an outcome; returns whether its operation had none before.
    pub fn add_outcome(&mut self, at: Clock, outcome: RecordedOutcome) -> bool {
        self.raise_before(Clock(at.0.saturating_add(1)));
        self.outcomes.insert(at, outcome).is_none()
    }
}
