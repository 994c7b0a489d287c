//! Properties of the batches that hold whatever the recorder's rules are: they
//! record all events, nothing else, and the batches up to any of them form a possible
//! history.

use refrain_logging::determinant::recorded::recorded_events;
use refrain_logging::determinant::{Determinant, Matched};
use refrain_ring::recorded::{RecordedOutcome, RecordedReceive};
use refrain_ring::{Clock, Rank, Ssn};
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
pub enum Event {
    Matched {
        at: Clock,
        matched: Matched,
        is_named: bool,
    },
    Probed {
        at: Clock,
        source: Rank,
        ssn: Ssn,
    },
    Completed {
        at: Clock,
        requests: Vec<Clock>,
    },
    Cancelled {
        at: Clock,
        request: Clock,
    },
    Number {
        at: Clock,
        series: u8,
        value: i64,
    },
    Bytes {
        at: Clock,
        bytes: Vec<u8>,
    },
    Nothing {
        at: Clock,
    },
}

/// The statements of an event, in separate pieces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Matched {
        request: u64,
        source: u32,
        ssn: u64,
        is_named: bool,
    },
    Probed {
        at: u64,
        source: u32,
        ssn: u64,
    },
    Cancelled {
        at: u64,
        request: u64,
    },
    Number {
        at: u64,
        series: u8,
        value: i64,
    },
    Bytes {
        at: u64,
        bytes: Vec<u8>,
    },
    /// With its place among all that were completed.
    Completed {
        place: usize,
        at: u64,
        request: u64,
    },
}

#[derive(Debug, Default)]
pub struct Story {
    events: Vec<Event>,
    happened: Vec<Piece>,
    told_pieces: BTreeSet<Piece>,
    told: Vec<Determinant>,
    completed: usize,
    completed_told: usize,
    found_nothing: Vec<Clock>,
    /// Clock of the latest operation that found something.
    last_success: Option<Clock>,
    /// Latest clock whose outcome is recorded.
    last_outcome_told: Option<Clock>,
    run_told: Vec<(Clock, Clock, u64)>,
}

impl Story {
    pub fn told(&self) -> &[Determinant] {
        &self.told
    }

    pub fn nothing_found(&self) -> u64 {
        self.found_nothing.len() as u64
    }

    pub fn event(&mut self, event: Event) {
        self.events.push(event.clone());
        match event {
            Event::Matched {
                matched, is_named, ..
            } => {
                self.happened.push(piece_of(&matched, is_named));
            }
            Event::Probed { at, source, ssn } => {
                self.last_success = Some(at);
                self.happened.push(Piece::Probed {
                    at: at.0,
                    source: source.0,
                    ssn: ssn.0,
                });
            }
            Event::Completed { at, requests } => {
                self.last_success = Some(at);
                for request in requests {
                    let place = self.completed;
                    self.completed += 1;
                    self.happened.push(Piece::Completed {
                        place,
                        at: at.0,
                        request: request.0,
                    });
                }
            }
            Event::Cancelled { at, request } => {
                self.last_success = Some(at);
                self.happened.push(Piece::Cancelled {
                    at: at.0,
                    request: request.0,
                });
            }
            Event::Number { at, series, value } => {
                self.last_success = Some(at);
                let at = at.0;
                self.happened.push(Piece::Number { at, series, value });
            }
            Event::Bytes { at, bytes } => {
                self.last_success = Some(at);
                self.happened.push(Piece::Bytes { at: at.0, bytes });
            }
            Event::Nothing { at } => self.found_nothing.push(at),
        }
    }

    fn tell(&mut self, piece: Piece) {
        assert!(
            self.told_pieces.insert(piece.clone()),
            "{piece:?} was told twice"
        );
    }

    fn tell_completed(&mut self, at: Clock, request: Clock) {
        let place = self.completed_told;
        self.completed_told += 1;
        self.tell(Piece::Completed {
            place,
            at: at.0,
            request: request.0,
        });
    }

    /// Adds a batch; `is_all`: an emission may now leave.
    pub fn batch(&mut self, row: &[Determinant], is_all: bool) {
        for determinant in row {
            if let Some(before) = self.told.last() {
                assert!(before.at() <= determinant.at(), "clocks go back");
            }
            self.told.push(determinant.clone());
            match determinant {
                Determinant::Match(it) => {
                    self.tell(piece_of(&it.matched, it.is_named));
                    if !it.is_completed {
                        continue;
                    }
                    self.tell_completed(it.at, it.matched.request);
                }
                Determinant::Probe {
                    at,
                    source,
                    ssn,
                    tag,
                    bytes,
                } => {
                    assert_eq!((*tag, *bytes), (3, ssn.0));
                    self.tell(Piece::Probed {
                        at: at.0,
                        source: source.0,
                        ssn: ssn.0,
                    });
                }
                Determinant::Completion { at, requests, .. } => {
                    requests
                        .iter()
                        .for_each(|&request| self.tell_completed(*at, request));
                }
                Determinant::Cancelled { at, request } => self.tell(Piece::Cancelled {
                    at: at.0,
                    request: request.0,
                }),
                Determinant::Number { at, series, value } => self.tell(Piece::Number {
                    at: at.0,
                    series: *series,
                    value: *value,
                }),
                Determinant::Bytes { at, bytes } => self.tell(Piece::Bytes {
                    at: at.0,
                    bytes: bytes.clone(),
                }),
                Determinant::Nothing { at, first, count } => {
                    self.run_told.push((*first, *at, *count));
                }
            }
            self.last_outcome_told = Some(determinant.at());
        }
        self.assert_prefix();
        self.assert_replayed();
        if is_all {
            assert_eq!(self.told_pieces.len(), self.happened.len());
            let latest = self.last_success.max(self.found_nothing.last().copied());
            assert_eq!(self.last_outcome_told, latest, "an outcome is not told");
        }
    }

    /// After each batch the log contains the first events without gaps: a
    /// rank that dies now replays up to there, then runs freely.
    fn assert_prefix(&self) {
        let so_far: BTreeSet<_> = self.happened[..self.told_pieces.len()].iter().collect();
        for piece in &self.told_pieces {
            assert!(
                so_far.contains(piece),
                "{piece:?} is told before what led to it"
            );
        }
    }

    /// The recorded events for a replay are those that happened, and all of them
    /// before the clock from which on the rank runs freely. REC-4
    fn assert_replayed(&self) {
        let told = recorded_events(&self.told).expect("one thing happened");
        for event in &self.events {
            let (at, expected) = match event {
                Event::Matched { at, matched, .. } => {
                    let end = told.receive(matched.request);
                    let (source, ssn) = (matched.source, matched.ssn);
                    let message = RecordedReceive::Gets { source, ssn };
                    // After an operation with a recorded outcome, before the next.
                    let may_miss = at.0 + 1 >= told.before().0;
                    assert!(end == message || (may_miss && end == RecordedReceive::Open));
                    continue;
                }
                Event::Probed { at, source, ssn } => {
                    let (source, ssn) = (*source, *ssn);
                    let (tag, bytes) = (3, ssn.0);
                    let found = RecordedOutcome::Found {
                        source,
                        ssn,
                        tag,
                        bytes,
                    };
                    (*at, Some(found))
                }
                Event::Completed { at, requests } => {
                    (*at, Some(RecordedOutcome::Ended(requests.clone())))
                }
                Event::Cancelled { at, request } => {
                    (*at, Some(RecordedOutcome::Cancelled(*request)))
                }
                Event::Number { at, series, value } => {
                    let (series, value) = (*series, *value);
                    (*at, Some(RecordedOutcome::Number { series, value }))
                }
                Event::Bytes { at, bytes } => (*at, Some(RecordedOutcome::Bytes(bytes.clone()))),
                Event::Nothing { at } => (*at, None),
            };
            let telling = match (expected, at < told.before()) {
                (_, false) => RecordedOutcome::Open,
                (Some(outcome), true) => outcome,
                (None, true) => RecordedOutcome::Nothing,
            };
            assert_eq!(told.at(at), telling, "at {at}");
        }
    }

    /// Checks at the end that all events are recorded, and that runs are complete.
    pub fn end(&self) {
        assert_eq!(self.told_pieces.len(), self.happened.len());
        for &(first, last, count) in &self.run_told {
            let within = |clock: &&Clock| first <= **clock && **clock <= last;
            assert_eq!(
                self.found_nothing.iter().filter(within).count() as u64,
                count
            );
            assert!(self.found_nothing.contains(&first) && self.found_nothing.contains(&last));
        }
    }
}

fn piece_of(matched: &Matched, is_named: bool) -> Piece {
    Piece::Matched {
        request: matched.request.0,
        source: matched.source.0,
        ssn: matched.ssn.0,
        is_named,
    }
}
