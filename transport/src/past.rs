//! What a rank that plays its past again is told of it: which message each
//! receive got, how each operation ended whose outcome depends on timing, and what
//! it was given from outside.
//! REC-4, REC-5, REC-8
//!
//! The engine asks here; records, and logs of a life before, are above this
//! crate.

use core::fmt;
use refrain_ring::{Clock, Rank, Ssn};

/// What becomes of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing is told of it.
    Untold,
    /// It gets this message, whatever else comes before.
    Gets {
        /// Whose message.
        source: Rank,
        /// Which one.
        ssn: Ssn,
    },
    /// It is cancelled, and gets none.
    Cancelled,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Its end is not told: whatever happens next is right.
    Open,
    /// It found nothing, or nothing of it depends on timing.
    Nothing,
    /// A probe found this message.
    Found {
        /// Its sender.
        source: Rank,
        /// Which one.
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
    /// It was given this number.
    Number {
        /// What it asked for.
        lane: u8,
        /// What it was given.
        value: i64,
    },
    /// It was given these bytes.
    Bytes(Vec<u8>),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untold => write!(f, "nothing is told of it"),
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

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => write!(f, "nothing is told of it"),
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
            Self::Number { lane, .. } => write!(f, "it asked for number {lane} (0: the time)"),
            Self::Bytes(bytes) => write!(f, "it asked for {} bytes", bytes.len()),
        }
    }
}

/// The records of a rank, all of them: those of one row that begins where the
/// rank begins.
pub trait Past: fmt::Debug {
    /// Before this clock everything is told: an operation of which no outcome is
    /// recorded found nothing.
    fn told_before(&self) -> Clock;

    /// What becomes of the receive that is posted at this clock.
    fn fate(&self, request: Clock) -> Fate;

    /// How the operation at this clock ended.
    fn at(&self, clock: Clock) -> Recorded;
}

/// A message that is sent again.
#[derive(Clone, Copy, Debug)]
pub struct SentAgain<'a> {
    /// To whom.
    pub to: Rank,
    /// Its number.
    pub ssn: Ssn,
    /// Its context.
    pub context: u32,
    /// Its tag.
    pub tag: i32,
    /// Its sender waits until it is matched.
    pub synchronous: bool,
    /// What is in it.
    pub payload: &'a [u8],
}

/// What the life before sent. REC-8
pub trait PastSends: fmt::Debug {
    /// Whether there is something to compare this message with. Asked of the
    /// messages to one rank in the order of their numbers.
    fn has(&mut self, to: Rank, ssn: Ssn) -> bool;

    /// Whether there is any message to this rank from this number on. Asked in the order
    /// of numbers, too.
    fn has_from(&mut self, to: Rank, ssn: Ssn) -> bool;

    /// Compares a message of which [`has`](PastSends::has) said so. Each message is
    /// compared once.
    ///
    /// # Errors
    /// It is another message, not only in its bytes: what differs, for people.
    fn compare(&mut self, sent: &SentAgain<'_>) -> Result<Compared, String>;
}

/// What came of comparing a message with the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// There was nothing to compare it with.
    Nothing,
    /// It is the same.
    Same,
    /// It has other bytes; these are those of the life before, as long as its own.
    OtherBytes(Vec<u8>),
}

/// What a call is told that does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// This.
    Told(T),
    /// That there is nothing.
    Nothing,
    /// Not yet anything: records say what it will be told, and that has not
    /// come. To be asked again after progress.
    NotYet,
}

impl<T> Answer<T> {
    /// The same of something else.
    #[inline]
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Self::Told(told) => Answer::Told(f(told)),
            Self::Nothing => Answer::Nothing,
            Self::NotYet => Answer::NotYet,
        }
    }

    /// What it is told, if anything.
    #[inline]
    pub fn told(self) -> Option<T> {
        match self {
            Self::Told(told) => Some(told),
            Self::Nothing | Self::NotYet => None,
        }
    }

    /// As the answer to one that does not depend on records.
    #[inline]
    pub fn free(there: Option<T>) -> Self {
        there.map_or(Self::Nothing, Self::Told)
    }
}
