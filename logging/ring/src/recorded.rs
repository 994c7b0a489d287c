//! What the records of earlier lives tell a replay: which message each receive got, how
//! each operation ended whose outcome depends on timing, and which values it got from
//! outside. The vocabulary of the engine, which replays, and of `logging`, which reads
//! determinants. REC-4

use crate::{Clock, Rank, Ssn};
use core::fmt;
use std::collections::BTreeMap;

/// What records say of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedReceive {
    /// Nothing.
    Open,
    /// It gets this message, whatever else arrives before.
    Gets {
        /// The sender of the message.
        source: Rank,
        /// Its number.
        ssn: Ssn,
    },
    /// It is cancelled, and gets none.
    Cancelled,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedOutcome {
    /// Its end is not recorded: whatever happens next is right.
    Open,
    /// It found nothing, or nothing of it depends on timing.
    Nothing,
    /// A probe found this message.
    Found {
        /// Its sender.
        source: Rank,
        /// Its number.
        ssn: Ssn,
        /// Its tag.
        tag: i32,
        /// Its length.
        bytes: u64,
    },
    /// It ended these requests in this order, named by the clocks at their posts.
    Ended(Vec<Clock>),
    /// It took back the receive that was posted at this clock.
    Cancelled(Clock),
    /// It got this number from outside.
    Number {
        /// The series of the number.
        series: u8,
        /// The number.
        value: i64,
    },
    /// It got these bytes from outside.
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

/// All that the per-rank event log of a rank tells, from the clock on at which the rank
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
    /// Before this clock everything is recorded: an operation without a recorded outcome
    /// found nothing.
    pub fn before(&self) -> Clock {
        self.before
    }

    /// What is recorded of the receive that is posted at this clock.
    pub fn receive(&self, request: Clock) -> RecordedReceive {
        let receive = self.receives.get(&request);
        receive.copied().unwrap_or(RecordedReceive::Open)
    }

    /// How the operation at this clock ended.
    pub fn at(&self, clock: Clock) -> RecordedOutcome {
        match self.outcomes.get(&clock) {
            Some(outcome) => outcome.clone(),
            None if clock < self.before => RecordedOutcome::Nothing,
            None => RecordedOutcome::Open,
        }
    }

    /// Whether one of these operations has a recorded outcome, the last included.
    pub fn any_outcome(&self, first: Clock, last: Clock) -> bool {
        self.outcomes.range(first..=last).next().is_some()
    }

    /// Everything before this clock is recorded.
    pub fn raise_before(&mut self, clock: Clock) {
        self.before = self.before.max(clock);
    }

    /// Records a receive; returns whether it has no record yet.
    pub fn add_receive(&mut self, request: Clock, receive: RecordedReceive) -> bool {
        self.receives.insert(request, receive).is_none()
    }

    /// Records an outcome; returns whether its operation has none yet.
    pub fn add_outcome(&mut self, at: Clock, outcome: RecordedOutcome) -> bool {
        self.raise_before(Clock(at.0.saturating_add(1)));
        self.outcomes.insert(at, outcome).is_none()
    }
}
