//! What the determinants of a rank tell of it, by clock: which message each
//! receive got, how each operation ended whose outcome depends on timing, what it
//! was given from outside. REC-4

use super::{Determinant, Matched};
use core::fmt;
use refrain_ring::{Clock, Rank, Ssn};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// The outcome of an operation that found or ended something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
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
    /// These requests ended, in this order, named by the clocks at their posts.
    Ended(Vec<Clock>),
    /// The receive that was posted at this clock was taken back.
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

/// What is told of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling<'a> {
    /// It came to this.
    Outcome(&'a Outcome),
    /// It found nothing.
    Nothing,
    /// Nothing: the row ends before it.
    Open,
}

/// What is told of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It got this message.
    Message(Rank, Ssn),
    /// It was taken back.
    Cancelled,
}

/// Two determinants of one row that cannot both be true.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("two events of this rank contradict each other: {second:?} {why}")]
pub struct Contradiction {
    /// The later one.
    pub second: Determinant,
    /// What is wrong with it.
    pub why: &'static str,
}

/// All that one row of determinants tells. Built from all of them in their order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Told {
    receives: BTreeMap<Clock, End>,
    messages: BTreeSet<(Rank, Ssn)>,
    outcomes: BTreeMap<Clock, Outcome>,
    /// The first part of a set whose end has not come.
    unfinished: Vec<Clock>,
    /// Of the latest.
    at: Clock,
    before: Clock,
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told")
            .field("before", &self.before)
            .field("receives", &self.receives.len())
            .field("outcomes", &self.outcomes.len())
            .finish_non_exhaustive()
    }
}

impl Told {
    /// By these.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn new<'a>(row: impl IntoIterator<Item = &'a Determinant>) -> Result<Self, Contradiction> {
        let mut told = Self::default();
        for determinant in row {
            told.add(determinant).map_err(|why| Contradiction {
                second: determinant.clone(),
                why,
            })?;
        }
        // Its operation was not over, as far as is known: it ends anew.
        told.unfinished.clear();
        Ok(told)
    }

    /// Before this clock everything is told.
    pub fn before(&self) -> Clock {
        self.before
    }

    /// What an operation came to whose outcome depends on timing.
    pub fn at(&self, clock: Clock) -> Telling<'_> {
        match self.outcomes.get(&clock) {
            Some(outcome) => Telling::Outcome(outcome),
            None if clock < self.before => Telling::Nothing,
            None => Telling::Open,
        }
    }

    /// What came of the receive that was posted at this clock, if that is told.
    pub fn receive(&self, request: Clock) -> Option<End> {
        self.receives.get(&request).copied()
    }

    fn add(&mut self, determinant: &Determinant) -> Result<(), &'static str> {
        if determinant.at() < self.at {
            return Err("is of an earlier clock than the one before");
        }
        self.at = determinant.at();
        match determinant {
            // That it happened in an operation does not tell how that ended.
            Determinant::Match { at, matched, .. } => {
                self.tell_before(*at);
                self.matched(matched)
            }
            Determinant::MatchCompleted { at, matched, .. } => {
                self.matched(matched)?;
                self.outcome(*at, Outcome::Ended(vec![matched.request]))
            }
            Determinant::Probe {
                at,
                source,
                ssn,
                tag,
                bytes,
            } => {
                let found = Outcome::Found {
                    source: *source,
                    ssn: *ssn,
                    tag: *tag,
                    bytes: *bytes,
                };
                self.outcome(*at, found)
            }
            Determinant::Completion {
                at,
                requests,
                continues,
            } => {
                self.unfinished.extend(requests);
                self.tell_before(*at);
                if *continues {
                    return Ok(());
                }
                let requests = core::mem::take(&mut self.unfinished);
                self.outcome(*at, Outcome::Ended(requests))
            }
            Determinant::Cancelled { at, request } => {
                self.receive_ended(*request, End::Cancelled)?;
                self.outcome(*at, Outcome::Cancelled(*request))
            }
            Determinant::Number { at, lane, value } => {
                let (lane, value) = (*lane, *value);
                self.outcome(*at, Outcome::Number { lane, value })
            }
            Determinant::Bytes { at, bytes } => self.outcome(*at, Outcome::Bytes(bytes.clone())),
            Determinant::Nothing { at, first, .. } => {
                if self.outcomes.range(first..=at).next().is_some() {
                    return Err("says that nothing was found where something was");
                }
                self.tell_before(next(*at));
                Ok(())
            }
        }
    }

    fn matched(&mut self, matched: &Matched) -> Result<(), &'static str> {
        let Matched {
            request,
            source,
            ssn,
        } = *matched;
        if !self.messages.insert((source, ssn)) {
            return Err("gives away a message that another receive has got");
        }
        self.receive_ended(request, End::Message(source, ssn))
    }

    fn receive_ended(&mut self, request: Clock, end: End) -> Result<(), &'static str> {
        match self.receives.insert(request, end) {
            Some(_) => Err("is of a receive that had ended"),
            None => Ok(()),
        }
    }

    fn outcome(&mut self, at: Clock, outcome: Outcome) -> Result<(), &'static str> {
        self.tell_before(next(at));
        match self.outcomes.insert(at, outcome) {
            Some(_) => Err("is the second outcome of its operation"),
            None => Ok(()),
        }
    }

    fn tell_before(&mut self, clock: Clock) {
        self.before = self.before.max(clock);
    }
}

fn next(clock: Clock) -> Clock {
    Clock(clock.0.saturating_add(1))
}
