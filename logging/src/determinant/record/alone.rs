//! The payload of a batch that is one match, which is what most sends commit:
//! the bytes that [`Encoder`](super::Encoder) writes, without all that only a
//! second determinant would look at.

use super::varint::zigzag;
use super::{IS_MATCH, MODE_COMPLETED, MODE_NAMED, OTHER, SOURCE_NEW, TAG_MODE};
use crate::determinant::Matched;
use refrain_ring::Clock;

/// Bytes in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::determinant) struct ShortPayload {
    /// The first is the lowest; above the last are zeros.
    pub(in crate::determinant) word: u64,
    pub(in crate::determinant) bytes: u32,
}

/// Such a payload, if a word can hold it.
#[inline]
pub(in crate::determinant) fn match_alone(
    at: Clock,
    matched: &Matched,
    is_named: bool,
    is_completed: bool,
) -> Option<ShortPayload> {
    let completed = if is_completed { MODE_COMPLETED } else { 0 };
    let mode = completed | if is_named { MODE_NAMED } else { 0 };
    let mut payload = ShortPayload::default();
    if mode != 0 {
        payload.push(TAG_MODE | mode);
    }
    // What is expected of the first: a request as old as its match, or 0.
    let change = match matched.request {
        request if request == at => None,
        Clock(0) => Some(0),
        Clock(request) => Some(zigzag(at.0.wrapping_sub(request))),
    };
    payload.push(IS_MATCH | if change.is_some() { OTHER } else { 0 } | SOURCE_NEW);
    payload.put(matched.source.0.into());
    payload.put(zigzag(matched.ssn.0));
    if let Some(change) = change {
        payload.put(change);
    }
    (payload.bytes <= u64::BITS / 8).then_some(payload)
}

impl ShortPayload {
    /// What is pushed behind the end of the word spoils it.
    #[inline]
    fn push(&mut self, byte: u8) {
        self.word |= u64::from(byte).wrapping_shl(8 * self.bytes);
        self.bytes += 1;
    }

    #[inline]
    fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::determinant::record::Encoder;
    use refrain_ring::{Rank, Ssn};

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
            let mut expected = Vec::new();
            let mut encoder = Encoder::new();
            encoder.begin(Clock(at));
            encoder.matched(&mut expected, Clock(at), &matched, is_named, is_completed);
            let Some(short) = match_alone(Clock(at), &matched, is_named, is_completed) else {
                assert!(expected.len() > 8, "{matched:?} at {at}");
                continue;
            };
            let bytes = short.word.to_le_bytes();
            let (written, above) = bytes.split_at(short.bytes as usize);
            assert_eq!(written, expected, "{matched:?} at {at}");
            assert!(above.iter().all(|byte| *byte == 0));
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
