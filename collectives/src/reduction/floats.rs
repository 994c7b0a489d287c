//! Rules for NaN and signed zeros.

use super::software::{Half, LongDouble, Quad};
use std::cmp::Ordering;

/// What becomes of the results of an operator.
pub trait Rules: Copy {
    /// The result, or the one NaN.
    fn plain(self) -> Self;

    /// The minimum.
    fn lesser(self, other: Self) -> Self;

    /// The maximum.
    fn greater(self, other: Self) -> Self;
}

macro_rules! rules {
    ($number:ident, $nan:literal) => {
        impl Rules for $number {
            #[inline]
            fn plain(self) -> Self {
                if self.is_nan() {
                    Self::from_bits($nan)
                } else {
                    self
                }
            }

            #[inline]
            fn lesser(self, other: Self) -> Self {
                let (a, b) = (self, other);
                let lesser = if a < b { a } else { b };
                // Equal: differ at most in the sign of zero.
                let equal = Self::from_bits(a.to_bits() | b.to_bits());
                let result = if a == b { equal } else { lesser };
                if a.is_nan() | b.is_nan() {
                    Self::from_bits($nan)
                } else {
                    result
                }
            }

            #[inline]
            fn greater(self, other: Self) -> Self {
                let (a, b) = (self, other);
                let greater = if a > b { a } else { b };
                let equal = Self::from_bits(a.to_bits() & b.to_bits());
                let result = if a == b { equal } else { greater };
                if a.is_nan() | b.is_nan() {
                    Self::from_bits($nan)
                } else {
                    result
                }
            }
        }
    };
}

rules!(f32, 0x7fc0_0000);
rules!(f64, 0x7ff8_0000_0000_0000);

macro_rules! rules_by_software {
    ($($number:ident)*) => {$(
        impl Rules for $number {
            fn plain(self) -> Self {
                if self.is_nan() { Self::NAN } else { self }
            }

            fn lesser(self, other: Self) -> Self {
                match self.partial_cmp(&other) {
                    None => Self::NAN,
                    Some(Ordering::Less) => self,
                    Some(Ordering::Equal) if self.is_negative() => self,
                    _ => other,
                }
            }

            fn greater(self, other: Self) -> Self {
                match self.partial_cmp(&other) {
                    None => Self::NAN,
                    Some(Ordering::Greater) => self,
                    Some(Ordering::Equal) if !self.is_negative() => self,
                    _ => other,
                }
            }
        }
    )*};
}

rules_by_software!(Half LongDouble Quad);
