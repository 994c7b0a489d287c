//! Converts the determinants of a rank to [`RecordedEvents`], by clock. REC-4

use super::{Determinant, Matched};
use refrain_ring::recorded::{RecordedEvents, RecordedOutcome, RecordedReceive};
use refrain_ring::{Clock, Rank, Ssn};
use std::collections::BTreeSet;
use thiserror::Error;

/// Two determinants of one per-rank event log that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("two events of this rank contradict each other: {second:?} {why}")]
pub struct Contradiction {
    /// The later determinant.
    pub second: Determinant,
    /// The contradiction.
    pub why: &'static str,
}

/// The events of these determinants: those of the whole per-rank event log after the clock at
/// which the rank begins, as [`determinants`](super::row::determinants) returns them.
///
/// # Errors
/// When they contradict each other.
pub fn recorded_events<'a>(
    log: impl IntoIterator<Item = &'a Determinant>,
) -> Result<RecordedEvents, Contradiction> {
    let mut builder = Builder::default();
    for determinant in log {
        builder.add(determinant).map_err(|why| Contradiction {
            second: determinant.clone(),
            why,
        })?;
    }
    // A set without its end is dropped: as far as is known, its operation had not ended.
    Ok(builder.recorded)
}

#[derive(Default)]
struct Builder {
    recorded: RecordedEvents,
    messages: BTreeSet<(Rank, Ssn)>,
    /// The first part of a set whose end has not been read.
    unfinished: Vec<Clock>,
    /// The clock of the latest determinant.
    at: Clock,
}

impl Builder {
    fn add(&mut self, determinant: &Determinant) -> Result<(), &'static str> {
        if determinant.at() < self.at {
            return Err("has an earlier clock than the previous event");
        }
        self.at = determinant.at();
        match determinant {
            // A match during an operation does not give the outcome of the operation.
            Determinant::Match(it) if !it.is_completed => {
                self.recorded.raise_before(it.at);
                self.matched(&it.matched)
            }
            Determinant::Match(it) => {
                self.matched(&it.matched)?;
                self.outcome(it.at, RecordedOutcome::Ended(vec![it.matched.request]))
            }
            &Determinant::Probe {
                at,
                source,
                ssn,
                tag,
                bytes,
            } => {
                let found = RecordedOutcome::Found {
                    source,
                    ssn,
                    tag,
                    bytes,
                };
                self.outcome(at, found)
            }
            Determinant::Completion {
                at,
                requests,
                continues,
            } => {
                self.unfinished.extend(requests);
                self.recorded.raise_before(*at);
                if *continues {
                    return Ok(());
                }
                let requests = core::mem::take(&mut self.unfinished);
                self.outcome(*at, RecordedOutcome::Ended(requests))
            }
            &Determinant::Cancelled { at, request } => {
                self.receive(request, RecordedReceive::Cancelled)?;
                self.outcome(at, RecordedOutcome::Cancelled(request))
            }
            &Determinant::Number { at, series, value } => {
                self.outcome(at, RecordedOutcome::Number { series, value })
            }
            Determinant::Bytes { at, bytes } => {
                self.outcome(*at, RecordedOutcome::Bytes(bytes.clone()))
            }
            &Determinant::Nothing { at, first, .. } => {
                if self.recorded.any_outcome(first, at) {
                    return Err("says that nothing was found when an outcome is recorded");
                }
                self.recorded.raise_before(Clock(at.0.saturating_add(1)));
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
            return Err("names a message that another receive got");
        }
        self.receive(request, RecordedReceive::Gets { source, ssn })
    }

    fn receive(&mut self, request: Clock, receive: RecordedReceive) -> Result<(), &'static str> {
        let is_new = self.recorded.add_receive(request, receive);
        is_new
            .then_some(())
            .ok_or("names a receive with an outcome")
    }

    fn outcome(&mut self, at: Clock, outcome: RecordedOutcome) -> Result<(), &'static str> {
        let is_new = self.recorded.add_outcome(at, outcome);
        is_new
            .then_some(())
            .ok_or("is the second outcome of its operation")
    }
}
