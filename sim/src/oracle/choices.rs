//! What happened to a rank, in one form for events as the engine told them and
//! for determinants as loggers hold them: what was chosen where there was a
//! choice.

use refrain_logging::determinant::{Determinant, Match, Matched};
use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::protocol::Event;
use std::collections::BTreeMap;

/// The choices of one rank, by the clocks that they belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Receives, by the clocks at their posts: which message each got.
    pub matches: BTreeMap<Clock, (Rank, Ssn)>,
    /// The same receives: when that was told. A match may be told with the
    /// completion, which is later.
    matched_at: BTreeMap<Clock, Clock>,
    /// Probes that found: sender, number, tag, length.
    pub probes: BTreeMap<Clock, (Rank, Ssn, i32, u64)>,
    /// Operations that completed requests: which, in their order.
    pub completions: BTreeMap<Clock, Vec<Clock>>,
    /// Operations that took a receive back: which.
    pub cancelled: BTreeMap<Clock, Clock>,
    /// Operations that were given a number or bytes from outside.
    pub given: BTreeMap<Clock, Determinant>,
    /// Up to this clock everything is known: an operation up to here that
    /// stands nowhere above found nothing.
    pub end: Option<Clock>,
}

/// The determinant that says just what this event does.
pub fn determinant(event: &Event<'_>) -> Determinant {
    match event {
        Event::Match {
            at,
            request,
            source,
            ssn,
            is_named,
        } => Determinant::Match(Match {
            at: *at,
            matched: Matched {
                request: *request,
                source: *source,
                ssn: *ssn,
            },
            is_named: *is_named,
            is_completed: false,
        }),
        Event::Probe {
            clock,
            source,
            ssn,
            tag,
            bytes,
        } => Determinant::Probe {
            at: *clock,
            source: *source,
            ssn: *ssn,
            tag: *tag,
            bytes: *bytes,
        },
        Event::Completion {
            clock,
            requests: [],
        } => nothing(*clock),
        Event::Completion { clock, requests } => Determinant::Completion {
            at: *clock,
            requests: requests.to_vec(),
            continues: false,
        },
        Event::Cancelled { clock, request } => Determinant::Cancelled {
            at: *clock,
            request: *request,
        },
        Event::Number {
            clock,
            series,
            value,
        } => Determinant::Number {
            at: *clock,
            series: *series,
            value: *value,
        },
        Event::Bytes { clock, bytes } => Determinant::Bytes {
            at: *clock,
            bytes: bytes.to_vec(),
        },
        Event::Nothing { clock } => nothing(*clock),
    }
}

fn nothing(clock: Clock) -> Determinant {
    Determinant::Nothing {
        at: clock,
        first: clock,
        count: 1,
    }
}

impl Choices {
    /// Those of a row of determinants.
    ///
    /// # Errors
    /// When they contradict each other: what was chosen twice.
    pub fn of<'a>(determinants: impl IntoIterator<Item = &'a Determinant>) -> Result<Self, String> {
        let mut choices = Self::default();
        let mut part = None;
        for determinant in determinants {
            choices.add(determinant)?;
            part = match determinant {
                Determinant::Completion {
                    at,
                    continues: true,
                    ..
                } => Some(*at),
                _ => None,
            };
        }
        // A set whose end is not told is not to be used. REC-4
        if let Some(at) = part {
            choices.completions.remove(&at);
        }
        Ok(choices)
    }

    /// Adds the next.
    ///
    /// # Errors
    /// As [`Choices::of`].
    pub fn add(&mut self, determinant: &Determinant) -> Result<(), String> {
        let at = determinant.at();
        if self.end.is_some_and(|end| end > at) {
            return Err(format!("{determinant:?} comes after clock {:?}", self.end));
        }
        self.end = Some(at);
        match determinant {
            Determinant::Match(it) => {
                self.add_match(at, &it.matched)?;
                match it.is_completed {
                    true => self.add_completed(at, &[it.matched.request]),
                    false => Ok(()),
                }
            }
            Determinant::Probe {
                source,
                ssn,
                tag,
                bytes,
                ..
            } => match self.probes.insert(at, (*source, *ssn, *tag, *bytes)) {
                Some(_) => Err(format!("two probes at {at}")),
                None => Ok(()),
            },
            Determinant::Completion { requests, .. } => self.add_completed(at, requests),
            Determinant::Cancelled { request, .. } => match self.cancelled.insert(at, *request) {
                Some(_) => Err(format!("two cancels at {at}")),
                None => Ok(()),
            },
            Determinant::Number { .. } | Determinant::Bytes { .. } => {
                match self.given.insert(at, determinant.clone()) {
                    Some(_) => Err(format!("two answers from outside at {at}")),
                    None => Ok(()),
                }
            }
            Determinant::Nothing { first, .. } => self.add_nothing(*first, at),
        }
    }

    fn add_match(&mut self, at: Clock, matched: &Matched) -> Result<(), String> {
        let message = (matched.source, matched.ssn);
        self.matched_at.insert(matched.request, at);
        match self.matches.insert(matched.request, message) {
            Some(_) => Err(format!("two matches of {:?}", matched.request)),
            None => Ok(()),
        }
    }

    /// A set may go on in the next determinant.
    fn add_completed(&mut self, at: Clock, requests: &[Clock]) -> Result<(), String> {
        self.completions.entry(at).or_default().extend(requests);
        Ok(())
    }

    fn add_nothing(&mut self, first: Clock, last: Clock) -> Result<(), String> {
        let found = self.completions.range(first..=last).next().is_some()
            || self.probes.range(first..=last).next().is_some()
            || self.cancelled.range(first..=last).next().is_some()
            || self.given.range(first..=last).next().is_some();
        match found {
            true => Err(format!("something and nothing from {first} to {last}")),
            false => Ok(()),
        }
    }

    /// Whether what is `held` is what happened: everything held has happened, and
    /// everything that happened after `after` and before `stable` is held. (What
    /// happened at `stable` may be in two batches.)
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
        let is_match_due = |post: Clock| self.matched_at.get(&post).is_some_and(|at| is_due(*at));
        differs("match", &self.matches, &held.matches, is_match_due)?;
        differs("probe", &self.probes, &held.probes, is_due)?;
        differs("completion", &self.completions, &held.completions, is_due)?;
        differs("cancel", &self.cancelled, &held.cancelled, is_due)?;
        differs("answer", &self.given, &held.given, is_due)
    }
}

fn differs<T: PartialEq + core::fmt::Debug>(
    what: &str,
    happened: &BTreeMap<Clock, T>,
    held: &BTreeMap<Clock, T>,
    is_due: impl Fn(Clock) -> bool,
) -> Result<(), String> {
    for (clock, held) in held {
        let real = happened.get(clock);
        if real != Some(held) {
            return Err(format!("{what} {clock} was {real:?}, held is {held:?}"));
        }
    }
    match happened
        .iter()
        .find(|(clock, _)| is_due(**clock) && !held.contains_key(clock))
    {
        Some((clock, real)) => Err(format!("{what} {clock} was {real:?}, and is not held")),
        None => Ok(()),
    }
}
