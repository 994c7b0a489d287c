//! What was decided by timing in one life of a rank, as its records tell it.

use refrain_logging::determinant::{Determinant, Matched};
use refrain_ring::{Clock, Rank, Ssn};
use std::collections::{BTreeMap, BTreeSet};

/// The outcome of an operation that found something.
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
    /// These requests ended, named by the clocks at their posts.
    Completed(Vec<Clock>),
    /// The receive that was posted at this clock was taken back.
    Cancelled(Clock),
    /// It was given this number from outside.
    Number {
        /// What it asked for.
        lane: u8,
        /// What it was given.
        value: i64,
    },
    /// It was given these bytes from outside.
    Bytes(Vec<u8>),
}

/// What the records say of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// It found something.
    Outcome(&'a Outcome),
    /// It found nothing.
    Nothing,
    /// They ended before it: whatever happens next is right.
    Open,
}

/// The choices of one life, by clock. Built from all its records in their order.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// By request: what a receive from any source got.
    matches: BTreeMap<Clock, (Rank, Ssn)>,
    /// The same for those that named their source (`pessimist-classic`).
    named: BTreeMap<Clock, (Rank, Ssn)>,
    /// The messages of `matches`.
    reserved: BTreeSet<(Rank, Ssn)>,
    outcomes: BTreeMap<Clock, Outcome>,
    /// Receives that were taken back before they were matched.
    cancelled: BTreeSet<Clock>,
    /// The first part of a set whose end is not there yet.
    unfinished: Vec<Clock>,
    /// Before this clock the records are complete.
    told_before: Clock,
}

impl Choices {
    /// Of these records.
    pub fn new<'a>(records: impl IntoIterator<Item = &'a Determinant>) -> Self {
        let mut choices = Self::default();
        for record in records {
            choices.add(record);
        }
        choices
    }

    /// Adds the next record.
    pub fn add(&mut self, record: &Determinant) {
        match record {
            Determinant::Match(it) => {
                self.matched(&it.matched, it.is_named);
                match it.is_completed {
                    true => self.completed(it.at, vec![it.matched.request]),
                    // That it happened in an operation does not tell how that ended.
                    false => self.tell_before(it.at),
                }
            }
            Determinant::Probe {
                at,
                source,
                ssn,
                tag,
                bytes,
            } => {
                let outcome = Outcome::Found {
                    source: *source,
                    ssn: *ssn,
                    tag: *tag,
                    bytes: *bytes,
                };
                self.outcomes.insert(*at, outcome);
                self.tell_before(next(*at));
            }
            Determinant::Completion {
                at,
                requests,
                continues,
            } => {
                self.unfinished.extend(requests);
                self.tell_before(*at);
                if !continues {
                    let requests = std::mem::take(&mut self.unfinished);
                    self.completed(*at, requests);
                }
            }
            Determinant::Cancelled { at, request } => {
                self.outcomes.insert(*at, Outcome::Cancelled(*request));
                self.cancelled.insert(*request);
                self.tell_before(next(*at));
            }
            Determinant::Number {
                at,
                series: lane,
                value,
            } => {
                let (lane, value) = (*lane, *value);
                self.outcomes.insert(*at, Outcome::Number { lane, value });
                self.tell_before(next(*at));
            }
            Determinant::Bytes { at, bytes } => {
                self.outcomes.insert(*at, Outcome::Bytes(bytes.clone()));
                self.tell_before(next(*at));
            }
            Determinant::Nothing { at, .. } => self.tell_before(next(*at)),
        }
    }

    /// Before this clock the records are complete.
    pub fn told_before(&self) -> Clock {
        self.told_before
    }

    /// What an operation came to whose outcome depends on timing.
    pub fn at(&self, clock: Clock) -> Told<'_> {
        match self.outcomes.get(&clock) {
            Some(outcome) => Told::Outcome(outcome),
            None if clock < self.told_before => Told::Nothing,
            None => Told::Open,
        }
    }

    /// The message that a receive from any source got.
    pub(super) fn match_of(&self, request: Clock) -> Option<(Rank, Ssn)> {
        self.matches.get(&request).copied()
    }

    /// The message that a receive from a named source got, where that is logged.
    pub(super) fn named_match_of(&self, request: Clock) -> Option<(Rank, Ssn)> {
        self.named.get(&request).copied()
    }

    /// Whether a message went to a receive from any source.
    pub(super) fn is_reserved(&self, source: Rank, ssn: Ssn) -> bool {
        self.reserved.contains(&(source, ssn))
    }

    /// Whether a receive was taken back before it was matched.
    pub(super) fn is_cancelled(&self, request: Clock) -> bool {
        self.cancelled.contains(&request)
    }

    fn matched(&mut self, matched: &Matched, is_named: bool) {
        let message = (matched.source, matched.ssn);
        if is_named {
            self.named.insert(matched.request, message);
        } else {
            self.matches.insert(matched.request, message);
            self.reserved.insert(message);
        }
    }

    fn completed(&mut self, at: Clock, requests: Vec<Clock>) {
        self.outcomes.insert(at, Outcome::Completed(requests));
        self.tell_before(next(at));
    }

    fn tell_before(&mut self, clock: Clock) {
        self.told_before = self.told_before.max(clock);
    }
}

fn next(clock: Clock) -> Clock {
    Clock(clock.0 + 1)
}
