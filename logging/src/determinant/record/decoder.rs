//! The decoder of payloads.

use super::prediction::Prediction;
use super::varint::{Bytes, unzigzag};
use super::{
    COUNT_LATER, IS_MATCH, MODE_COMPLETED, MODE_NAMED, NOTHING_COUNT, OTHER, SET_CONTINUES,
    SET_COUNT_MAX, SOURCE_LATER, SOURCE_NEW, SOURCE_UNEXPECTED, STEP_LATER, STEP_SHIFT, Stepping,
    TAG_BYTES, TAG_CANCELLED, TAG_COMPLETION, TAG_MODE, TAG_NOTHING, TAG_NUMBER, TAG_OTHER,
    TAG_PROBE,
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
        self.0.clock = self.0.clock_behind(determinants);
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
        let mut byte = self.bytes.byte()?;
        if byte & IS_MATCH == 0 && byte & 0xf0 == TAG_MODE {
            self.known.mode = byte & 0x0f;
            if self.known.mode & !(MODE_COMPLETED | MODE_NAMED) != 0 {
                return Err("unknown flags of a match");
            }
            byte = self.bytes.byte()?;
            if byte & IS_MATCH == 0 {
                return Err("flags of a match without a match");
            }
        }
        if byte & IS_MATCH != 0 {
            return self.matched(byte);
        }
        match (byte & 0xf0, byte & 0x0f) {
            (TAG_PROBE, 0) => self.probe(),
            (TAG_COMPLETION, flags) => self.completion(flags),
            (TAG_CANCELLED, 0) => self.cancelled(),
            (TAG_NUMBER, series) => self.number(series),
            (TAG_BYTES, 0) => self.bytes_from_outside(),
            (TAG_NOTHING, flags) if flags & !NOTHING_COUNT == 0 => self.nothing(flags),
            _ => Err("its kind is unknown"),
        }
    }

    #[inline]
    fn matched(&mut self, head: u8) -> Read<Determinant> {
        let (at, source, ssn) = self.place(head, Stepping::Match)?;
        let change = match head & OTHER {
            0 => None,
            _ => Some(self.bytes.number()?),
        };
        let matched = Matched {
            request: Clock(self.known.requests.apply(at.0, change)),
            source,
            ssn,
        };
        Ok(Determinant::Match(Match {
            at,
            matched,
            is_named: self.known.mode & MODE_NAMED != 0,
            is_completed: self.known.mode & MODE_COMPLETED != 0,
        }))
    }

    fn probe(&mut self) -> Read<Determinant> {
        let head = self.bytes.byte()?;
        let (at, source, ssn) = self.place(head, Stepping::Probe)?;
        if head & TAG_OTHER != 0 {
            let difference = unzigzag(self.bytes.number()?) as i64;
            let tag = i64::from(self.known.probed.0).checked_add(difference);
            self.known.probed.0 = tag
                .and_then(|tag| i32::try_from(tag).ok())
                .ok_or("a tag does not fit 32 bits")?;
        }
        if head & OTHER != 0 {
            let difference = unzigzag(self.bytes.number()?);
            self.known.probed.1 = self.known.probed.1.wrapping_add(difference);
        }
        let (tag, bytes) = self.known.probed;
        Ok(Determinant::Probe {
            at,
            source,
            ssn,
            tag,
            bytes,
        })
    }

    #[inline]
    fn place(&mut self, head: u8, stepping: Stepping) -> Read<(Clock, Rank, Ssn)> {
        let step = match head >> STEP_SHIFT & STEP_LATER {
            0 => self.known.steps[stepping as usize],
            STEP_LATER => self.bytes.number()?,
            step => step.into(),
        };
        let at = self.forward(step)?;
        self.known.steps[stepping as usize] = step;
        let source_code = head & 0x0f;
        let (source, ssn) = if source_code == SOURCE_NEW {
            let source = Rank(self.bytes.number_u32()?);
            let difference = unzigzag(self.bytes.number()?);
            let ssn = Ssn(self.known.ssn.wrapping_add(difference));
            self.known.sources.met(source, ssn);
            (source, ssn)
        } else {
            let place = match source_code {
                SOURCE_LATER.. => self.bytes.number_u32()? as usize,
                place => place.into(),
            };
            let known = self.known.sources.at(place);
            let (source, mut ssn) = known.ok_or("a source that no earlier determinant names")?;
            if source_code == SOURCE_UNEXPECTED {
                ssn.0 = ssn.0.wrapping_add(unzigzag(self.bytes.number()?));
            }
            self.known.sources.met_again(place, ssn);
            (source, ssn)
        };
        self.known.ssn = ssn.0;
        Ok((at, source, ssn))
    }

    fn completion(&mut self, flags: u8) -> Read<Determinant> {
        let step = self.bytes.number()?;
        let at = self.forward(step)?;
        let count = match flags & !SET_CONTINUES {
            COUNT_LATER => self.bytes.number()?.saturating_add(SET_COUNT_MAX + 1),
            count => count.into(),
        };
        if count > Determinant::REQUESTS_MAX as u64 {
            return Err("a set has more requests than the maximum");
        }
        if count > self.bytes.left() as u64 {
            return Err("it is cut short");
        }
        let mut requests = Vec::with_capacity(count as usize);
        let mut request = at.0.wrapping_sub(self.bytes.number()?);
        requests.push(Clock(request));
        for _ in 1..count {
            request = request.wrapping_add(unzigzag(self.bytes.number()?));
            requests.push(Clock(request));
        }
        Ok(Determinant::Completion {
            at,
            requests,
            continues: flags & SET_CONTINUES != 0,
        })
    }

    fn cancelled(&mut self) -> Read<Determinant> {
        let step = self.bytes.number()?;
        let at = self.forward(step)?;
        Ok(Determinant::Cancelled {
            at,
            request: Clock(at.0.wrapping_sub(self.bytes.number()?)),
        })
    }

    fn number(&mut self, series: u8) -> Read<Determinant> {
        let step = self.bytes.number()?;
        let at = self.forward(step)?;
        let difference = unzigzag(self.bytes.number()?) as i64;
        let last = &mut self.known.numbers[usize::from(series)];
        *last = last.wrapping_add(difference);
        let value = *last;
        Ok(Determinant::Number { at, series, value })
    }

    fn bytes_from_outside(&mut self) -> Read<Determinant> {
        let step = self.bytes.number()?;
        let at = self.forward(step)?;
        let count = usize::from(self.bytes.byte()?) + 1;
        let bytes = self.bytes.take(count)?.to_vec();
        Ok(Determinant::Bytes { at, bytes })
    }

    fn nothing(&mut self, flags: u8) -> Read<Determinant> {
        let step = self.bytes.number()?;
        let at = self.forward(step)?;
        let span = self.bytes.number()?;
        let first = at.0.checked_sub(span).ok_or("a clock below 0")?;
        let others = match flags & NOTHING_COUNT {
            0 => span,
            _ => self.bytes.number()?,
        };
        Ok(Determinant::Nothing {
            at,
            first: Clock(first),
            count: others.checked_add(1).ok_or("a count above 2^64")?,
        })
    }

    /// Advances the clock, which never decreases.
    fn forward(&mut self, step: u64) -> Read<Clock> {
        let clock = self.known.clock.checked_add(step);
        self.known.clock = clock.ok_or("a clock above 2^64")?;
        Ok(Clock(self.known.clock))
    }
}
