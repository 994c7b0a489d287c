//! The encoder of payloads.

use super::prediction::Prediction;
use super::varint::{put, zigzag};
use super::{
    COUNT_LATER, IS_MATCH, NOTHING_COUNT, OTHER, PLACES_SHORT, SET_CONTINUES, SET_COUNT_MAX,
    SOURCE_LATER, SOURCE_NEW, SOURCE_UNEXPECTED, STEP_LATER, STEP_SHIFT, STEPS_MAX, Stepping,
    TAG_BYTES, TAG_CANCELLED, TAG_COMPLETION, TAG_MODE, TAG_NOTHING, TAG_NUMBER, TAG_OTHER,
    TAG_PROBE, mode_of,
};
use crate::determinant::{Determinant, Match};
use core::hash::{Hash, Hasher};
use refrain_ring::{Clock, Rank, Ssn};

/// Writes consecutive determinants, each as its difference from
/// the prediction.
#[derive(Clone, Debug)]
pub(crate) struct Encoder(Prediction);

/// Hashes nothing: the encoder is reset at the start of each batch.
impl Hash for Encoder {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self(Prediction::new(0))
    }

    /// Hashes what it has met, where it is not reset.
    pub(crate) fn hash_known<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }

    /// Begins a batch whose first determinant is at `first_clock`.
    #[inline]
    pub(crate) fn begin(&mut self, first_clock: Clock) {
        self.0.begin(first_clock.0);
    }

    /// Leaves out this number of determinants before one at `clock`: they count as matches like the last one, if
    /// that is possible. Returns whether it is.
    #[inline]
    pub(crate) fn skip(&mut self, determinants: u64, clock: Clock) -> bool {
        let behind = self.0.clock_behind(determinants);
        let is_possible = behind <= clock.0;
        if is_possible {
            self.0.clock = behind;
        }
        is_possible
    }

    /// Writes a determinant; `requests_of` and `bytes_of` give its requests and bytes.
    #[inline]
    pub(crate) fn determinant<'a, R, B, Requests, Bytes>(
        &mut self,
        out: &mut Vec<u8>,
        determinant: &'a Determinant<R, B>,
        requests_of: impl FnOnce(&'a R) -> Requests,
        bytes_of: impl FnOnce(&'a B) -> Bytes,
    ) where
        Requests: ExactSizeIterator<Item = Clock>,
        Bytes: ExactSizeIterator<Item = u8>,
    {
        match *determinant {
            Determinant::Match(ref matched) => self.matched(out, matched),
            Determinant::Probe {
                at,
                source,
                ssn,
                tag,
                bytes,
            } => self.probe(out, at, source, ssn, (tag, bytes)),
            Determinant::Completion {
                at,
                ref requests,
                continues,
            } => self.completion(out, at, requests_of(requests), continues),
            Determinant::Cancelled { at, request } => self.cancelled(out, at, request),
            Determinant::Number { at, series, value } => self.number(out, at, series, value),
            Determinant::Bytes { at, ref bytes } => self.bytes(out, at, bytes_of(bytes)),
            Determinant::Nothing { at, first, count } => self.nothing(out, at, first, count),
        }
    }

    #[inline]
    pub(crate) fn matched(&mut self, out: &mut Vec<u8>, record: &Match) {
        let (at, matched, mode) = (record.at, &record.matched, mode_of(record));
        if mode != self.0.mode {
            out.push(TAG_MODE | mode);
            self.0.mode = mode;
        }
        let change = self.0.requests.change(at.0, matched.request.0);
        let head = IS_MATCH | if change.is_some() { OTHER } else { 0 };
        let message = (matched.source, matched.ssn);
        self.place(out, head, Stepping::Match, at, message);
        if let Some(change) = change {
            put(out, change);
        }
    }

    fn probe(&mut self, out: &mut Vec<u8>, at: Clock, source: Rank, ssn: Ssn, found: (i32, u64)) {
        out.push(TAG_PROBE);
        let (tag, bytes) = self.0.probed;
        self.0.probed = found;
        let head =
            if found.0 == tag { 0 } else { TAG_OTHER } | if found.1 == bytes { 0 } else { OTHER };
        self.place(out, head, Stepping::Probe, at, (source, ssn));
        if found.0 != tag {
            let difference = i64::from(found.0) - i64::from(tag);
            put(out, zigzag(difference as u64));
        }
        if found.1 != bytes {
            put(out, zigzag(found.1.wrapping_sub(bytes)));
        }
    }

    /// Writes the clock and the message.
    #[inline]
    fn place(
        &mut self,
        out: &mut Vec<u8>,
        head: u8,
        stepping: Stepping,
        at: Clock,
        (source, ssn): (Rank, Ssn),
    ) {
        let known = &mut self.0;
        let step = at.0.wrapping_sub(known.clock);
        let step_code = match step {
            step if step == known.steps[stepping as usize] => 0,
            1..=STEPS_MAX => step as u8,
            _ => STEP_LATER,
        };
        known.clock = at.0;
        known.steps[stepping as usize] = step;
        let place = known.sources.place(source);
        let expected = place.and_then(|place| known.sources.at(place));
        let source_code = match (place, expected) {
            (Some(place), Some((_, expected))) if ssn == expected => {
                if place < PLACES_SHORT {
                    place as u8
                } else {
                    SOURCE_LATER
                }
            }
            (Some(_), _) => SOURCE_UNEXPECTED,
            (None, _) => SOURCE_NEW,
        };
        out.push(head | step_code << STEP_SHIFT | source_code);
        if step_code == STEP_LATER {
            put(out, step);
        }
        if let Some((place, (_, expected))) = place.zip(expected) {
            if source_code >= SOURCE_LATER {
                put(out, place as u64);
            }
            if source_code == SOURCE_UNEXPECTED {
                put(out, zigzag(ssn.0.wrapping_sub(expected.0)));
            }
            known.sources.met_again(place, ssn);
        } else {
            put(out, source.0.into());
            put(out, zigzag(ssn.0.wrapping_sub(known.ssn)));
            known.sources.met(source, ssn);
        }
        known.ssn = ssn.0;
    }

    fn completion(
        &mut self,
        out: &mut Vec<u8>,
        at: Clock,
        requests: impl ExactSizeIterator<Item = Clock>,
        continues: bool,
    ) {
        let flag = if continues { SET_CONTINUES } else { 0 };
        let count = requests.len() as u64;
        if (1..=SET_COUNT_MAX).contains(&count) {
            out.push(TAG_COMPLETION | flag | count as u8);
            self.step(out, at);
        } else {
            out.push(TAG_COMPLETION | flag | COUNT_LATER);
            self.step(out, at);
            put(out, count.wrapping_sub(SET_COUNT_MAX + 1));
        }
        let mut before = None;
        for Clock(request) in requests {
            put(
                out,
                match before {
                    None => at.0.wrapping_sub(request),
                    Some(before) => zigzag(request.wrapping_sub(before)),
                },
            );
            before = Some(request);
        }
    }

    fn cancelled(&mut self, out: &mut Vec<u8>, at: Clock, request: Clock) {
        out.push(TAG_CANCELLED);
        self.step(out, at);
        put(out, at.0.wrapping_sub(request.0));
    }

    /// `series`: below [`Determinant::SERIES`].
    fn number(&mut self, out: &mut Vec<u8>, at: Clock, series: u8, value: i64) {
        let series = series % Determinant::SERIES;
        out.push(TAG_NUMBER | series);
        self.step(out, at);
        let last = &mut self.0.numbers[usize::from(series)];
        put(out, zigzag(value.wrapping_sub(*last) as u64));
        *last = value;
    }

    /// `bytes`: 1 to [`Determinant::BYTES_MAX`].
    fn bytes(&mut self, out: &mut Vec<u8>, at: Clock, bytes: impl ExactSizeIterator<Item = u8>) {
        out.push(TAG_BYTES);
        self.step(out, at);
        out.push(bytes.len().wrapping_sub(1) as u8);
        out.extend(bytes);
    }

    fn nothing(&mut self, out: &mut Vec<u8>, at: Clock, first: Clock, count: u64) {
        let span = at.0.wrapping_sub(first.0);
        let others = count.wrapping_sub(1);
        let flag = if others == span { 0 } else { NOTHING_COUNT };
        out.push(TAG_NOTHING | flag);
        self.step(out, at);
        put(out, span);
        if others != span {
            put(out, others);
        }
    }

    fn step(&mut self, out: &mut Vec<u8>, at: Clock) {
        put(out, at.0.wrapping_sub(self.0.clock));
        self.0.clock = at.0;
    }
}
