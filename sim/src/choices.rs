//! The choices of one rank by clock: what its records say about outcomes that timing decided.
//! Records are events as an engine reports them, or determinants as event loggers hold them.

use refrain_logging::determinant::{self, Determinant, Matched};
use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::protocol::Event;
use std::collections::{BTreeMap, BTreeSet};

/// The outcome of an operation that found, ended or received something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
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
    /// These requests ended; each is named by the clock of its post.
    Completed(Vec<Clock>),
    /// The receive that was posted at this clock was cancelled.
    Cancelled(Clock),
    /// A value from outside, such as the time.
    Number {
        /// Series of the value.
        series: u8,
        /// The value.
        value: i64,
    },
    /// Bytes from outside.
    Bytes(Vec<u8>),
}

/// What the records say about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded<'a> {
    /// The operation found, ended or received something.
    Outcome(&'a Outcome),
    /// The operation found nothing.
    Nothing,
    /// The records end before the operation: any outcome is right.
    Open,
}

/// The message that a receive got.
#[derive(Clone, Debug)]
struct Match {
    message: (Rank, Ssn),
    /// The receive named its source (`pessimist-classic`).
    is_named: bool,
    /// Clock of the record, which may be that of the completion.
    at: Clock,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// By the clock of the receive's post.
    matches: BTreeMap<Clock, Match>,
    /// Messages that receives from any source got.
    reserved: BTreeSet<(Rank, Ssn)>,
    outcomes: BTreeMap<Clock, Outcome>,
    /// Receives that were cancelled.
    cancelled: BTreeSet<Clock>,
    /// The first parts of a set of requests whose last part is missing so far.
    unfinished: Vec<Clock>,
    /// Clock of the latest record.
    end: Clock,
    /// The records are complete before this clock.
    complete_before: Clock,
}

/// The determinant for an event.
pub fn determinant(event: &Event<'_>) -> Determinant {
    match *event {
        Event::Match {
            at,
            request,
            source,
            ssn,
            is_named,
        } => Determinant::Match(determinant::Match {
            at,
            matched: Matched {
                request,
                source,
                ssn,
            },
            is_named,
            is_completed: false,
        }),
        Event::Probe {
            clock: at,
            source,
            ssn,
            tag,
            bytes,
        } => Determinant::Probe {
            at,
            source,
            ssn,
            tag,
            bytes,
        },
        Event::Completion {
            clock: at,
            requests: &[],
        }
        | Event::Nothing { clock: at } => Determinant::Nothing {
            at,
            first: at,
            count: 1,
        },
        Event::Completion {
            clock: at,
            requests,
        } => Determinant::Completion {
            at,
            requests: requests.to_vec(),
            continues: false,
        },
        Event::Cancelled { clock: at, request } => Determinant::Cancelled { at, request },
        Event::Number {
            clock: at,
            series,
            value,
        } => Determinant::Number { at, series, value },
        Event::Bytes { clock: at, bytes } => Determinant::Bytes {
            at,
            bytes: bytes.to_vec(),
        },
    }
}

impl Choices {
    /// The choices in these records, which are in order.
    ///
    /// # Errors
    /// When two of them contradict each other.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Determinant>) -> Result<Self, String> {
        let mut choices = Self::default();
        records.into_iter().try_for_each(|it| choices.add(it))?;
        // A set without its last part is ignored: the operation runs anew. REC-4
        choices.unfinished.clear();
        Ok(choices)
    }

    /// Adds the next record.
    ///
    /// # Errors
    /// When it contradicts an earlier one.
    pub fn add(&mut self, record: &Determinant) -> Result<(), String> {
        let at = record.at();
        if self.end > at {
            return Err(format!("{record:?} comes after clock {}", self.end));
        }
        self.end = at;
        // A match within an operation does not say how the operation ends.
        self.complete_before = self.complete_before.max(at);
        let outcome = match record {
            Determinant::Match(it) => {
                self.matched(at, &it.matched, it.is_named)?;
                if !it.is_completed {
                    return Ok(());
                }
                Outcome::Completed(vec![it.matched.request])
            }
            &Determinant::Probe {
                source,
                ssn,
                tag,
                bytes,
                ..
            } => Outcome::Found {
                source,
                ssn,
                tag,
                bytes,
            },
            Determinant::Completion {
                requests,
                continues,
                ..
            } => {
                self.unfinished.extend(requests);
                if *continues {
                    return Ok(());
                }
                Outcome::Completed(std::mem::take(&mut self.unfinished))
            }
            Determinant::Cancelled { request, .. } => {
                self.cancelled.insert(*request);
                Outcome::Cancelled(*request)
            }
            &Determinant::Number { series, value, .. } => Outcome::Number { series, value },
            Determinant::Bytes { bytes, .. } => Outcome::Bytes(bytes.clone()),
            Determinant::Nothing { first, .. } => {
                self.complete_before = Clock(at.0 + 1);
                return match self.outcomes.range(*first..=at).next() {
                    None => Ok(()),
                    Some(_) => Err(format!(
                        "records of an outcome and of none from {first} to {at}"
                    )),
                };
            }
        };
        self.complete_before = Clock(at.0 + 1);
        match self.outcomes.insert(at, outcome) {
            None => Ok(()),
            Some(before) => Err(format!("two outcomes at {at}: the first is {before:?}")),
        }
    }

    fn matched(&mut self, at: Clock, matched: &Matched, is_named: bool) -> Result<(), String> {
        let message = (matched.source, matched.ssn);
        if !is_named {
            self.reserved.insert(message);
        }
        let its = Match {
            message,
            is_named,
            at,
        };
        match self.matches.insert(matched.request, its) {
            None => Ok(()),
            Some(_) => Err(format!("two matches of {:?}", matched.request)),
        }
    }

    /// The records are complete before this clock.
    pub fn complete_before(&self) -> Clock {
        self.complete_before
    }

    /// What the records say about the outcome of the operation at this clock.
    pub fn at(&self, clock: Clock) -> Recorded<'_> {
        match self.outcomes.get(&clock) {
            Some(outcome) => Recorded::Outcome(outcome),
            None if clock < self.complete_before => Recorded::Nothing,
            None => Recorded::Open,
        }
    }

    /// The message of a receive from any source, or of a receive from a named source (`is_named`).
    pub fn match_of(&self, request: Clock, is_named: bool) -> Option<(Rank, Ssn)> {
        let found = self.matches.get(&request);
        found
            .filter(|it| it.is_named == is_named)
            .map(|it| it.message)
    }

    /// Whether a receive from any source got this message.
    pub fn is_reserved(&self, source: Rank, ssn: Ssn) -> bool {
        self.reserved.contains(&(source, ssn))
    }

    /// Whether a receive was cancelled.
    pub fn is_cancelled(&self, request: Clock) -> bool {
        self.cancelled.contains(&request)
    }

    /// Compares the choices that happened (`self`) with the held ones. Each held choice must have
    /// happened, and each choice after `after` and before `stable` must be held. (Records with the
    /// clock `stable` itself may be in two batches.)
    ///
    /// # Errors
    /// The first difference.
    pub fn judge(
        &self,
        held: &Self,
        after: Option<Clock>,
        stable: Option<Clock>,
    ) -> Result<(), String> {
        let is_due = |at: Clock| Some(at) > after && Some(at) < stable;
        let message = |it: &Match| it.message;
        differs("match", &self.matches, &held.matches, message, |_, it| {
            is_due(it.at)
        })?;
        let same = Outcome::clone;
        differs("outcome", &self.outcomes, &held.outcomes, same, |at, _| {
            is_due(at)
        })
    }
}

fn differs<T, V: PartialEq + core::fmt::Debug>(
    what: &str,
    happened: &BTreeMap<Clock, T>,
    held: &BTreeMap<Clock, T>,
    value: impl Fn(&T) -> V,
    is_due: impl Fn(Clock, &T) -> bool,
) -> Result<(), String> {
    for (clock, held) in held {
        let (real, held) = (happened.get(clock).map(&value), value(held));
        if real.as_ref() != Some(&held) {
            return Err(format!("{what} {clock} was {real:?}, recorded {held:?}"));
        }
    }
    let mut due = happened.iter().filter(|(clock, it)| is_due(**clock, it));
    match due.find(|(clock, _)| !held.contains_key(*clock)) {
        Some((clock, it)) => {
            let it = value(it);
            Err(format!("{what} {clock} was {it:?}, and has no record"))
        }
        None => Ok(()),
    }
}
