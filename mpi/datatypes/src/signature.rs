//! Type signatures: which basic types follow each other in a message.

use crate::basic::Basic;

/// The sequence of basic types of a message, as its length and a hash. Sequences that differ have
/// different signatures but for chance (1 in 2^61 for each pair of messages that was not made for
/// it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// Number of basic elements.
    pub elements: i64,
    /// The sum of the codes of the basics times powers of [`BASE`], modulo [`PRIME`].
    hash: u64,
}

const PRIME: u64 = (1 << 61) - 1;
const BASE: u64 = 0x0b4e_5d2c_9f31_7a65;

fn times(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    // 2^61 is 1 modulo the prime.
    ((product >> 61) as u64 + (product as u64 & PRIME)) % PRIME
}

/// `BASE` to the power of the number of elements.
fn power(mut exponent: i64) -> u64 {
    let (mut result, mut square) = (1, BASE);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        exponent /= 2;
    }
    result
}

impl Signature {
    pub(crate) const EMPTY: Self = Self {
        elements: 0,
        hash: 0,
    };

    pub(crate) fn basic(basic: Basic) -> Self {
        Self {
            elements: 1,
            hash: 1 + basic.class as u64 * 256 + u64::from(basic.bytes),
        }
    }

    /// This sequence, then the other; `None` when the elements exceed 64 bits.
    pub(crate) fn then(self, next: Self) -> Option<Self> {
        Some(Self {
            elements: self.elements.checked_add(next.elements)?,
            hash: (times(self.hash, power(next.elements)) + next.hash) % PRIME,
        })
    }

    /// This sequence so many times.
    pub(crate) fn repeated(self, count: i64) -> Option<Self> {
        self.elements.checked_mul(count)?;
        let (mut result, mut doubled, mut left) = (Self::EMPTY, self, count);
        while left > 0 {
            if left % 2 == 1 {
                result = result.then(doubled)?;
            }
            left /= 2;
            if left > 0 {
                doubled = doubled.then(doubled)?;
            }
        }
        Some(result)
    }
}
