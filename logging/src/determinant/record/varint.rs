//! Numbers of variable length: seven bits a byte, lowest first, the top bit set
//! on all bytes except the last (LEB128). Each number has one encoding: the shortest.

/// Maximum length of a number in bytes.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

/// Writes a number.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A pair of small numbers takes a byte: the first in its upper three bits, the second in the lower five. The
/// highest value stands for it and above; then the rest follows.
const FIRST_MAX: u64 = 7;
pub(super) const SECOND_MAX: u64 = 31;
const SECOND_BITS: u8 = 5;

/// Maximum length of a pair in bytes.
pub(crate) const PAIR_BYTES_MAX: usize = 1 + 2 * VARINT_BYTES_MAX;

/// Writes a pair of numbers.
#[inline]
pub(crate) fn put_pair(out: &mut Vec<u8>, (first, second): (u64, u64)) {
    let short = (first.min(FIRST_MAX), second.min(SECOND_MAX));
    out.push((short.0 << SECOND_BITS | short.1) as u8);
    if first >= FIRST_MAX {
        put(out, first - FIRST_MAX);
    }
    if second >= SECOND_MAX {
        put(out, second - SECOND_MAX);
    }
}

/// Maps a difference modulo 2⁶⁴ to a number that is small when the difference is near 0, in
/// either direction.
#[inline]
pub(crate) fn zigzag(difference: u64) -> u64 {
    difference << 1 ^ (difference as i64 >> 63) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub(crate) fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// The bytes that are still to be read.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    /// Number of bytes left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, &'static str> {
        let (&byte, rest) = self.0.split_first().ok_or("it is cut short")?;
        self.0 = rest;
        Ok(byte)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("it is cut short")?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn number(&mut self) -> Result<u64, &'static str> {
        let mut value = 0;
        for shift in (0..).step_by(7).take(VARINT_BYTES_MAX) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                if byte == 0 && shift > 0 {
                    return Err("a number has more bytes than it needs");
                }
                return Ok(value);
            }
        }
        Err("a number is above 2^64")
    }

    /// A pair of numbers.
    pub(crate) fn pair(&mut self) -> Result<(u64, u64), &'static str> {
        let byte = u64::from(self.byte()?);
        let mut whole = |short, most| match short {
            _ if short < most => Ok(short),
            _ => (self.number()?.checked_add(most)).ok_or("a number is above 2^64"),
        };
        let first = whole(byte >> SECOND_BITS, FIRST_MAX)?;
        Ok((first, whole(byte & SECOND_MAX, SECOND_MAX)?))
    }

    /// A number of 32 bits.
    pub(crate) fn number_u32(&mut self) -> Result<u32, &'static str> {
        u32::try_from(self.number()?).map_err(|_| "a number is above 2^32")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, value);
        bytes
    }

    #[test]
    fn numbers_come_back_from_their_shortest_form() {
        for bits in 0..64 {
            for value in [(1u64 << bits) - 1, 1 << bits, u64::MAX >> bits] {
                let bytes = encoded(value);
                assert!(bytes.len() <= VARINT_BYTES_MAX);
                let mut read = Bytes(&bytes);
                assert_eq!(read.number(), Ok(value));
                assert_eq!(read.left(), 0);
                assert_eq!(unzigzag(zigzag(value)), value);
                assert!(Bytes(&bytes[..bytes.len() - 1]).number().is_err());
            }
        }
        assert_eq!([0, 1, u64::MAX, 2].map(zigzag), [0, 2, 1, 4]);
    }

    #[test]
    fn pairs_come_back() {
        let numbers = (0..64).flat_map(|bits| [(1u64 << bits) - 1, 1 << bits, u64::MAX >> bits]);
        let numbers: Vec<u64> = numbers.chain([6, 7, 8, 30, 31, 32, 33]).collect();
        for &first in &numbers {
            for &second in &numbers {
                let mut bytes = Vec::new();
                put_pair(&mut bytes, (first, second));
                assert!(bytes.len() <= PAIR_BYTES_MAX);
                assert_eq!(bytes.len() == 1, first < FIRST_MAX && second < SECOND_MAX);
                let mut read = Bytes(&bytes);
                assert_eq!((read.pair(), read.left()), (Ok((first, second)), 0));
                assert!(Bytes(&bytes[..bytes.len() - 1]).pair().is_err());
            }
        }
        let mut above = vec![0xe0];
        put(&mut above, u64::MAX - 6);
        assert!(Bytes(&above).pair().is_err(), "65 bits");
    }

    #[test]
    fn other_forms_are_refused() {
        assert!(Bytes(&[0x80, 0]).number().is_err(), "longer than needed");
        let above = [[0xff; 9].as_slice(), &[0x02]].concat();
        assert!(Bytes(&above).number().is_err(), "65 bits");
        assert!(Bytes(&[0xff; 11]).number().is_err(), "no end");
        assert!(Bytes(&encoded(1 << 32)).number_u32().is_err());
        assert_eq!(Bytes(&encoded(u32::MAX.into())).number_u32(), Ok(u32::MAX));
    }
}
