//! The decoder of payloads.

use super::prediction::{Naming, Prediction};
use super::varint::{Bytes, unzigzag};
use super::{
    AS_PREDICTED, IS_COMPLETED, IS_MATCH, NAMED_CHANGES, OTHER, OTHER_STEP, PROBE_LENGTH_LATER,
    PROBE_STEP_LATER, PROBE_STEP_SHIFT, PROBE_TAG_LATER, PROBE_TAG_SHIFT, SET_CONTINUES,
    SET_COUNT_MAX, SET_LISTED, SET_OTHER, SOURCE_LATER, SOURCE_NEW, SOURCE_UNEXPECTED, TAG_BYTES,
    TAG_CANCELLED, TAG_NOTHING, TAG_NOTHING_COUNTED, TAG_NUMBER, TAG_PROBE, TAG_SET, WAY_SHIFT,
};
use crate::determinant::{Determinant, Match, Matched};
use refrain_ring::{Clock, Rank, Ssn};

type Read<T> = Result<T, &'static str>;

/// Reads consecutive determinants.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Decoder(Prediction);

impl Decoder {
    pub(crate) fn new() -> Self {
        Self(Prediction::new(0))
    }

    /// Begins with a determinant at `first_clock`.
    #[inline]
    pub(crate) fn begin(&mut self, first_clock: Clock) {
        self.0.begin(first_clock.0);
    }

    /// As the writer has left them out.
    #[inline]
    pub(crate) fn skip(&mut self, determinants: u64) {
        self.0.go_to(self.0.clock_behind(determinants));
    }

    /// Reads the next determinant.
    #[inline]
    pub(crate) fn determinant(&mut self, bytes: &mut Bytes<'_>) -> Read<Determinant> {
        let known = &mut self.0;
        Next { known, bytes }.determinant()
    }
}

/// The next determinant.
struct Next<'k, 'a> {
    known: &'k mut Prediction,
    bytes: &'k mut Bytes<'a>,
}

impl Next<'_, '_> {
    #[inline]
    fn determinant(&mut self) -> Read<Determinant> {
        let byte = self.bytes.byte()?;
        if byte & IS_MATCH != 0 {
            return self.matched(byte);
        }
        match (byte & 0xf0, byte & 0x0f) {
            (TAG_SET.., _) => self.completion(byte, false),
            (TAG_PROBE, source) => self.probe(source),
            (TAG_NUMBER, series) => self.number(series),
            _ => self.seldom(byte),
        }
    }

    fn seldom(&mut self, byte: u8) -> Read<Determinant> {
        match byte {
            NAMED_CHANGES => {
                self.known.is_named = !self.known.is_named;
                match self.bytes.byte()? {
                    head @ IS_MATCH.. => self.matched(head),
                    _ => Err("no match follows a change of matches"),
                }
            }
            SET_CONTINUES => match self.bytes.byte()? {
                head @ TAG_SET..IS_MATCH => self.completion(head, true),
                _ => Err("what continues is not a set"),
            },
            TAG_CANCELLED => self.cancelled(),
            TAG_BYTES => self.bytes_from_outside(),
            TAG_NOTHING => self.nothing(false),
            TAG_NOTHING_COUNTED => self.nothing(true),
            _ => Err("its kind is unknown"),
        }
    }

    #[inline]
    fn matched(&mut self, head: u8) -> Read<Determinant> {
        let is_completed = head & IS_COMPLETED != 0;
        let naming = match is_completed {
            false => Naming::Match,
            true => Naming::CompletedMatch,
        };
        let expected = self.known.expected(naming);
        let way = head >> WAY_SHIFT & OTHER;
        let (step, lag) = match way {
            OTHER_STEP => (self.bytes.number()?, expected.lag),
            OTHER => self.bytes.pair()?,
            _ => (expected.step, expected.lag),
        };
        let at = self.after(step)?;
        let request = match way {
            AS_PREDICTED => self.known.request().wrapping_add(expected.further),
            _ => at.0.wrapping_sub(lag),
        };
        self.known.follow(naming, at.0, request);
        let (source, ssn) = self.message(head)?;
        let matched = Matched {
            request: Clock(request),
            source,
            ssn,
        };
        Ok(Determinant::Match(Match {
            at,
            matched,
            is_named: self.known.is_named,
            is_completed,
        }))
    }

    fn probe(&mut self, source: u8) -> Read<Determinant> {
        let (source, ssn) = self.message(source)?;
        let head = self.bytes.byte()?;
        let step = match head >> PROBE_STEP_SHIFT {
            PROBE_STEP_LATER => {
                let further = self.bytes.number()?;
                let step = further.checked_add(PROBE_STEP_LATER.into());
                step.ok_or("a step above 2^64")?
            }
            step => step.into(),
        };
        let at = self.after(step)?;
        self.known.follow_other(at.0);
        let probed = &mut self.known.probed;
        let tag = match head >> PROBE_TAG_SHIFT & PROBE_TAG_LATER {
            PROBE_TAG_LATER => {
                let difference = unzigzag(self.bytes.number()?) as i64;
                let tag = i64::from(probed.tag()).checked_add(difference);
                let tag = tag.and_then(|tag| i32::try_from(tag).ok());
                let tag = tag.ok_or("a tag does not fit 32 bits")?;
                probed.add(tag);
                tag
            }
            place => probed.take(place.into()),
        };
        if head & PROBE_LENGTH_LATER != 0 {
            probed.bytes = self.bytes.number()?;
        }
        Ok(Determinant::Probe {
            at,
            source,
            ssn,
            tag,
            bytes: probed.bytes,
        })
    }

    /// Reads a message whose source is in the lower four bits.
    #[inline]
    fn message(&mut self, head: u8) -> Read<(Rank, Ssn)> {
        let code = head & 0x0f;
        let known = &mut *self.known;
        let (place, source);
        if code == SOURCE_NEW {
            source = Rank(self.bytes.number_u32()?);
            let difference = unzigzag(self.bytes.number()?);
            known.ssn = known.ssn.wrapping_add(difference);
            place = known.sources.meet(source);
        } else {
            let (number, difference) = match code {
                SOURCE_LATER => (self.bytes.number()?, 0),
                SOURCE_UNEXPECTED => self.bytes.pair()?,
                place => (place.into(), 0),
            };
            place = usize::try_from(number).unwrap_or(usize::MAX);
            let met = known.sources.at(place);
            source = met.ok_or("a source that no earlier determinant names")?;
            let expected = known.sources.expected(place);
            known.ssn = expected.0.wrapping_add(unzigzag(difference));
        }
        let ssn = Ssn(known.ssn);
        known.sources.note(place, ssn);
        Ok((source, ssn))
    }

    fn completion(&mut self, head: u8, continues: bool) -> Read<Determinant> {
        let count = match u64::from(head) & SET_COUNT_MAX {
            0 => self.bytes.number()?.saturating_add(SET_COUNT_MAX + 1),
            count => count,
        };
        if count > Determinant::REQUESTS_MAX as u64 {
            return Err("a set has more requests than the maximum");
        }
        let expected = self.known.expected(Naming::Set);
        let (at, first) = if head & SET_OTHER != 0 {
            let (step, lag) = self.bytes.pair()?;
            let at = self.after(step)?;
            (at, at.0.wrapping_sub(lag))
        } else {
            let first = self.known.request().wrapping_add(expected.further);
            (self.after(expected.step)?, first)
        };
        self.known.follow(Naming::Set, at.0, first);
        let mut requests = Vec::with_capacity(count as usize);
        requests.push(Clock(first));
        let mut request = first;
        for _ in 1..count {
            let step = match head & SET_LISTED {
                0 => 1,
                _ => unzigzag(self.bytes.number()?),
            };
            request = request.wrapping_add(step);
            requests.push(Clock(request));
        }
        self.known.ends_with(request);
        Ok(Determinant::Completion {
            at,
            requests,
            continues,
        })
    }

    fn cancelled(&mut self) -> Read<Determinant> {
        let (step, distance) = self.bytes.pair()?;
        let at = self.after(step)?;
        self.known.follow_other(at.0);
        Ok(Determinant::Cancelled {
            at,
            request: Clock(at.0.wrapping_sub(distance)),
        })
    }

    fn number(&mut self, series: u8) -> Read<Determinant> {
        let step = self.bytes.number()?;
        let at = self.after(step)?;
        self.known.follow_other(at.0);
        let difference = unzigzag(self.bytes.number()?) as i64;
        let last = &mut self.known.numbers[usize::from(series)];
        *last = last.wrapping_add(difference);
        let value = *last;
        Ok(Determinant::Number { at, series, value })
    }

    fn bytes_from_outside(&mut self) -> Read<Determinant> {
        let step = self.bytes.number()?;
        let at = self.after(step)?;
        self.known.follow_other(at.0);
        let count = usize::from(self.bytes.byte()?) + 1;
        let bytes = self.bytes.take(count)?.to_vec();
        Ok(Determinant::Bytes { at, bytes })
    }

    fn nothing(&mut self, is_counted: bool) -> Read<Determinant> {
        let (step, span) = self.bytes.pair()?;
        let at = self.after(step)?;
        self.known.follow_other(at.0);
        let first = at.0.checked_sub(span).ok_or("a clock below 0")?;
        let others = match is_counted {
            false => span,
            true => self.bytes.number()?,
        };
        Ok(Determinant::Nothing {
            at,
            first: Clock(first),
            count: others.checked_add(1).ok_or("a count above 2^64")?,
        })
    }

    /// The clock that is so much later than that of the determinant before; clocks never decrease.
    #[inline]
    fn after(&self, step: u64) -> Read<Clock> {
        let clock = self.known.clock().checked_add(step);
        clock.map(Clock).ok_or("a clock above 2^64")
    }
}
