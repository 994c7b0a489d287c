//! The payload of a batch with a single match, as most sends commit it:
//! the same bytes as [`Encoder`](super::Encoder) writes, without the state that only a
//! second determinant would use.

use super::varint::{SECOND_MAX, VARINT_BYTES_MAX, zigzag};
use super::{IS_COMPLETED, IS_MATCH, NAMED_CHANGES, OTHER, SOURCE_NEW, WAY_SHIFT};
use crate::determinant::Match;

/// Maximum length in bytes: two of its own; the lag of the request; rank and SSN.
pub(crate) const ALONE_BYTES_MAX: usize = 2 + (1 + VARINT_BYTES_MAX) + 5 + VARINT_BYTES_MAX;

/// Writes the payload to the start of `to`; returns its length in bytes.
#[inline]
pub(crate) fn match_alone(to: &mut [u8; ALONE_BYTES_MAX], alone: &Match) -> usize {
    let matched = &alone.matched;
    let mut end = 0;
    if alone.is_named {
        to[0] = NAMED_CHANGES;
        end = 1;
    }
    let completed = if alone.is_completed { IS_COMPLETED } else { 0 };
    // The prediction for the first match: a request as old as its match.
    let lag = alone.at.0.wrapping_sub(matched.request.0);
    let head = IS_MATCH | completed | SOURCE_NEW;
    if lag == 0 {
        to[end] = head;
        end += 1;
    } else {
        to[end] = head | OTHER << WAY_SHIFT;
        end = put_lag(to, end + 1, lag);
    }
    end = put(to, end, matched.source.0.into());
    put(to, end, zigzag(matched.ssn.0))
}

/// Writes the pair of no step and this lag.
#[inline]
fn put_lag(to: &mut [u8; ALONE_BYTES_MAX], end: usize, lag: u64) -> usize {
    to[end] = lag.min(SECOND_MAX) as u8;
    match lag.checked_sub(SECOND_MAX) {
        None => end + 1,
        Some(rest) => put(to, end + 1, rest),
    }
}

#[inline]
fn put(to: &mut [u8; ALONE_BYTES_MAX], mut end: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        to[end] = value as u8 | 0x80;
        value >>= 7;
        end += 1;
    }
    to[end] = value as u8;
    end + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::determinant::Matched;
    use crate::determinant::record::Encoder;
    use refrain_ring::{Clock, Rank, Ssn};

    /// Numbers around every length of their encodings.
    fn numbers() -> Vec<u64> {
        let powers = (0..64).map(|bits| 1u64 << bits);
        let mut numbers: Vec<u64> = powers.flat_map(|it| [it - 1, it, it + 1]).collect();
        numbers.extend([u64::MAX - 1, u64::MAX]);
        numbers
    }

    fn check(at: u64, request: u64, source: u32, ssn: u64) {
        let matched = Matched {
            request: Clock(request),
            source: Rank(source),
            ssn: Ssn(ssn),
        };
        for flags in 0..4 {
            let (is_named, is_completed) = (flags & 1 != 0, flags & 2 != 0);
            let alone = Match {
                at: Clock(at),
                matched,
                is_named,
                is_completed,
            };
            let mut expected = Vec::new();
            let mut encoder = Encoder::new();
            encoder.begin(Clock(at));
            encoder.matched(&mut expected, &alone);
            let mut written = [0xee; ALONE_BYTES_MAX];
            let bytes = match_alone(&mut written, &alone);
            assert_eq!(written[..bytes], expected, "{matched:?} at {at}");
        }
    }

    #[test]
    fn it_is_what_the_encoder_writes() {
        for &number in &numbers() {
            for &other in &numbers() {
                check(number, other, 3, 5);
                check(number, number, other as u32, 5);
                check(9, 4, other as u32, number);
            }
            check(number, 0, 0, number);
        }
        check(u64::MAX, 1 << 63, u32::MAX, 1 << 63);
    }
}
