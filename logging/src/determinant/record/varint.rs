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
    fn other_forms_are_refused() {
        assert!(Bytes(&[0x80, 0]).number().is_err(), "longer than needed");
        let above = [[0xff; 9].as_slice(), &[0x02]].concat();
        assert!(Bytes(&above).number().is_err(), "65 bits");
        assert!(Bytes(&[0xff; 11]).number().is_err(), "no end");
        assert!(Bytes(&encoded(1 << 32)).number_u32().is_err());
        assert_eq!(Bytes(&encoded(u32::MAX.into())).number_u32(), Ok(u32::MAX));
    }
}
