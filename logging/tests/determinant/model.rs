//! The recorder as a simple model: lists of determinants, searched
//! from end to end.

use crate::story::Event;
use refrain_logging::determinant::{Determinant, Match};
use refrain_ring::Clock;

#[derive(Debug, Default)]
pub struct Model {
    pending: Vec<Determinant>,
    /// Clocks of the run, and the number of determinants pending at its last.
    run: Vec<Clock>,
    before_run: usize,
}

impl Model {
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Matched {
                at,
                matched,
                is_named,
            } => self.pending.push(Determinant::Match(Match {
                at: *at,
                matched: *matched,
                is_named: *is_named,
                is_completed: false,
            })),
            Event::Probed { at, source, ssn } => {
                self.run.clear();
                self.pending.push(Determinant::Probe {
                    at: *at,
                    source: *source,
                    ssn: *ssn,
                    tag: 3,
                    bytes: ssn.0,
                });
            }
            Event::Completed { at, requests } => {
                self.run.clear();
                if requests.len() != 1 || !self.merge(*at, requests[0]) {
                    let parts = requests.chunks(Determinant::REQUESTS_MAX);
                    let last = parts.len() - 1;
                    self.pending.extend(parts.enumerate().map(|(place, part)| {
                        Determinant::Completion {
                            at: *at,
                            requests: part.to_vec(),
                            continues: place < last,
                        }
                    }));
                }
            }
            Event::Cancelled { at, request } => {
                self.run.clear();
                self.pending.push(Determinant::Cancelled {
                    at: *at,
                    request: *request,
                });
            }
            Event::Number { at, series, value } => {
                self.run.clear();
                self.pending.push(Determinant::Number {
                    at: *at,
                    series: *series,
                    value: *value,
                });
            }
            Event::Bytes { at, bytes } => {
                self.run.clear();
                self.pending.push(Determinant::Bytes {
                    at: *at,
                    bytes: bytes.clone(),
                });
            }
            Event::Nothing { at } => {
                self.run.push(*at);
                self.before_run = self.pending.len();
            }
        }
    }

    fn merge(&mut self, at: Clock, request: Clock) -> bool {
        let is_it = |it: &Determinant| matches!(it, Determinant::Match(it) if it.matched.request == request && !it.is_completed);
        let Some(place) = self.pending.iter().rposition(is_it) else {
            return false;
        };
        let is_match = |it: &Determinant| matches!(it, Determinant::Match(_));
        let sum = |of: fn(&Determinant) -> usize| self.pending.iter().map(of).sum::<usize>();
        let named = sum(|it| match it {
            Determinant::Completion { requests, .. } => requests.len(),
            _ => 0,
        });
        let given = sum(|it| match it {
            Determinant::Bytes { bytes, .. } => bytes.len(),
            _ => 0,
        });
        let is_last = place + 1 == self.pending.len();
        let fits_one_batch = self.pending.len() <= 48 && named <= 128 && given <= 512;
        if !(is_last || fits_one_batch) || !self.pending[place..].iter().all(is_match) {
            return false;
        }
        let Determinant::Match(it) = self.pending.remove(place) else {
            unreachable!("it was found as one");
        };
        self.pending.push(Determinant::Match(Match {
            at,
            is_completed: true,
            ..it
        }));
        true
    }

    /// The determinants that could be in batches now.
    pub fn takeable(&self, flush: bool) -> Vec<Determinant> {
        let (Some(&first), Some(&at)) = (self.run.first(), self.run.last()) else {
            return self.pending.clone();
        };
        let (before, behind) = self.pending.split_at(self.before_run);
        if !flush && behind.len() < 64 {
            return before.to_vec();
        }
        let count = self.run.len() as u64;
        let run = Determinant::Nothing { at, first, count };
        [before, &[run], behind].concat()
    }

    /// Notes that these were taken.
    pub fn taken(&mut self, row: &[Determinant]) {
        for determinant in row {
            if matches!(determinant, Determinant::Nothing { .. }) {
                self.run.clear();
            } else {
                self.pending.remove(0);
                self.before_run = self.before_run.saturating_sub(1);
            }
        }
    }
}
