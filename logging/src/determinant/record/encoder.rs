//! The encoder of payloads.

use super::prediction::{Advance, Naming, Prediction};
use super::varint::{put, put_pair, zigzag};
use super::{
    AS_PREDICTED, IS_COMPLETED, IS_MATCH, NAMED_CHANGES, OTHER, OTHER_STEP, PLACES_SHORT,
    PROBE_LENGTH_LATER, PROBE_STEP_LATER, PROBE_STEP_SHIFT, PROBE_TAG_LATER, PROBE_TAG_SHIFT,
    SAME_LAG, SET_CONTINUES, SET_COUNT_MAX, SET_LISTED, SET_OTHER, SOURCE_LATER, SOURCE_NEW,
    SOURCE_UNEXPECTED, TAG_BYTES, TAG_CANCELLED, TAG_NOTHING, TAG_NOTHING_COUNTED, TAG_NUMBER,
    TAG_PROBE, TAG_SET, WAY_SHIFT,
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
            self.0.go_to(behind);
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
        Requests: ExactSizeIterator<Item = Clock> + Clone,
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
        let (known, at, matched) = (&mut self.0, record.at.0, &record.matched);
        if record.is_named != known.is_named {
            out.push(NAMED_CHANGES);
            known.is_named = record.is_named;
        }
        let (naming, completed) = match record.is_completed {
            false => (Naming::Match, 0),
            true => (Naming::CompletedMatch, IS_COMPLETED),
        };
        let expected = known.expected(naming);
        let found = known.follow(naming, at, matched.request.0);
        let is_step = found.step == expected.step;
        let way = if is_step && found.further == expected.further {
            AS_PREDICTED
        } else if found.lag != expected.lag {
            OTHER
        } else if is_step {
            SAME_LAG
        } else {
            OTHER_STEP
        };
        let place = known.sources.place(matched.source);
        let message = (matched.source, matched.ssn);
        let code = self.source(place, matched.ssn);
        out.push(IS_MATCH | completed | way << WAY_SHIFT | code);
        match place {
            Some(place) if way == AS_PREDICTED && usize::from(code) < PLACES_SHORT => {
                // The head says it all: the common case.
                self.0.sources.note(place, matched.ssn);
                self.0.ssn = matched.ssn.0;
            }
            _ => self.follow_head(out, (way, code), found, (place, message)),
        }
    }

    /// Writes what the head of a match does not say.
    #[inline(never)]
    fn follow_head(
        &mut self,
        out: &mut Vec<u8>,
        (way, code): (u8, u8),
        found: Advance,
        (place, message): (Option<usize>, (Rank, Ssn)),
    ) {
        match way {
            OTHER_STEP => put(out, found.step),
            OTHER => put_pair(out, (found.step, found.lag)),
            _ => {}
        }
        self.message(out, code, place, message);
    }

    fn probe(&mut self, out: &mut Vec<u8>, at: Clock, source: Rank, ssn: Ssn, found: (i32, u64)) {
        let place = self.0.sources.place(source);
        let code = self.source(place, ssn);
        out.push(TAG_PROBE | code);
        self.message(out, code, place, (source, ssn));
        let known = &mut self.0;
        let step = known.follow_other(at.0);
        let (tag, bytes) = found;
        let tag_place = known.probed.place(tag);
        let step_code = step.min(PROBE_STEP_LATER.into()) as u8;
        let tag_code = tag_place.map_or(PROBE_TAG_LATER, |place| place as u8);
        let is_other_length = bytes != known.probed.bytes;
        let length_code = if is_other_length {
            PROBE_LENGTH_LATER
        } else {
            0
        };
        out.push(step_code << PROBE_STEP_SHIFT | tag_code << PROBE_TAG_SHIFT | length_code);
        if step_code == PROBE_STEP_LATER {
            put(out, step - u64::from(PROBE_STEP_LATER));
        }
        match tag_place {
            Some(place) => drop(known.probed.take(place)),
            None => {
                let difference = i64::from(tag) - i64::from(known.probed.tag());
                put(out, zigzag(difference as u64));
                known.probed.add(tag);
            }
        }
        if is_other_length {
            put(out, bytes);
            known.probed.bytes = bytes;
        }
    }

    /// The four bits for a message of the source at this place.
    #[inline]
    fn source(&self, place: Option<usize>, ssn: Ssn) -> u8 {
        match place {
            None => SOURCE_NEW,
            Some(place) if ssn != self.0.sources.expected(place) => SOURCE_UNEXPECTED,
            Some(place) if place < PLACES_SHORT => place as u8,
            Some(_) => SOURCE_LATER,
        }
    }

    /// Writes what the four bits do not say of a message.
    #[inline]
    fn message(
        &mut self,
        out: &mut Vec<u8>,
        code: u8,
        place: Option<usize>,
        (source, ssn): (Rank, Ssn),
    ) {
        let known = &mut self.0;
        let before = core::mem::replace(&mut known.ssn, ssn.0);
        let place = match (place, code) {
            (None, _) => {
                put(out, source.0.into());
                put(out, zigzag(ssn.0.wrapping_sub(before)));
                known.sources.meet(source)
            }
            (Some(place), SOURCE_LATER) => {
                put(out, place as u64);
                place
            }
            (Some(place), SOURCE_UNEXPECTED) => {
                let expected = known.sources.expected(place);
                let difference = zigzag(ssn.0.wrapping_sub(expected.0));
                put_pair(out, (place as u64, difference));
                place
            }
            (Some(place), _) => place,
        };
        known.sources.note(place, ssn);
    }

    fn completion(
        &mut self,
        out: &mut Vec<u8>,
        at: Clock,
        requests: impl ExactSizeIterator<Item = Clock> + Clone,
        continues: bool,
    ) {
        if continues {
            out.push(SET_CONTINUES);
        }
        let count = requests.len() as u64;
        let first = requests.clone().next().unwrap_or(at);
        let others = requests.clone().skip(1);
        let pairs = requests.zip(others);
        let steps = pairs.map(|(before, next)| next.0.wrapping_sub(before.0));
        let is_listed = steps.clone().any(|step| step != 1);
        let listed = if is_listed { SET_LISTED } else { 0 };
        let known = &mut self.0;
        let expected = known.expected(Naming::Set);
        let found = known.follow(Naming::Set, at.0, first.0);
        let is_other = (found.step, found.further) != (expected.step, expected.further);
        let other = if is_other { SET_OTHER } else { 0 };
        let short = match count {
            1..=SET_COUNT_MAX => count as u8,
            _ => 0,
        };
        out.push(TAG_SET | other | listed | short);
        if short == 0 {
            put(out, count.wrapping_sub(SET_COUNT_MAX + 1));
        }
        if is_other {
            put_pair(out, (found.step, found.lag));
        }
        let mut last = first.0;
        for step in steps {
            last = last.wrapping_add(step);
            if is_listed {
                put(out, zigzag(step));
            }
        }
        known.ends_with(last);
    }

    fn cancelled(&mut self, out: &mut Vec<u8>, at: Clock, request: Clock) {
        out.push(TAG_CANCELLED);
        let step = self.0.follow_other(at.0);
        put_pair(out, (step, at.0.wrapping_sub(request.0)));
    }

    /// `series`: below [`Determinant::SERIES`].
    fn number(&mut self, out: &mut Vec<u8>, at: Clock, series: u8, value: i64) {
        let series = series % Determinant::SERIES;
        out.push(TAG_NUMBER | series);
        put(out, self.0.follow_other(at.0));
        let last = &mut self.0.numbers[usize::from(series)];
        put(out, zigzag(value.wrapping_sub(*last) as u64));
        *last = value;
    }

    /// `bytes`: 1 to [`Determinant::BYTES_MAX`].
    fn bytes(&mut self, out: &mut Vec<u8>, at: Clock, bytes: impl ExactSizeIterator<Item = u8>) {
        out.push(TAG_BYTES);
        put(out, self.0.follow_other(at.0));
        out.push(bytes.len().wrapping_sub(1) as u8);
        out.extend(bytes);
    }

    fn nothing(&mut self, out: &mut Vec<u8>, at: Clock, first: Clock, count: u64) {
        let span = at.0.wrapping_sub(first.0);
        let others = count.wrapping_sub(1);
        out.push(match others == span {
            true => TAG_NOTHING,
            false => TAG_NOTHING_COUNTED,
        });
        put_pair(out, (self.0.follow_other(at.0), span));
        if others != span {
            put(out, others);
        }
    }
}
