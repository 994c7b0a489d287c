//! C's `long double`, which Rust does not have: computed by software, bit by bit as C computes it.

use rustc_apfloat::Float;
use std::cmp::Ordering;

/// 80 bits of the x87, with 6 bytes of padding behind them, and the positive quiet NaN.
#[cfg(target_arch = "x86_64")]
type Format = rustc_apfloat::ieee::X87DoubleExtended;
#[cfg(target_arch = "x86_64")]
const NAN_BITS: u128 = 0x7fff << 64 | 3 << 62;

/// binary128 of IEEE 754, as on aarch64 and riscv64, and the positive quiet NaN.
#[cfg(not(target_arch = "x86_64"))]
type Format = rustc_apfloat::ieee::Quad;
#[cfg(not(target_arch = "x86_64"))]
const NAN_BITS: u128 = 0x7fff << 112 | 1 << 111;

/// A `long double`. Padding is 0.
#[derive(Clone, Copy, Debug)]
pub struct LongDouble(u128);

impl LongDouble {
    /// The positive quiet NaN without payload.
    pub const NAN: Self = Self(NAN_BITS);

    /// From its bytes in memory.
    pub fn from_ne_bytes(bytes: [u8; size_of::<Self>()]) -> Self {
        Self(u128::from_ne_bytes(bytes) & u128::MAX >> (128 - Format::BITS))
    }

    /// Its bytes in memory.
    pub fn to_ne_bytes(self) -> [u8; size_of::<Self>()] {
        self.0.to_ne_bytes()
    }

    /// Whether it is not a number.
    pub fn is_nan(self) -> bool {
        self.value().is_nan()
    }

    /// Whether its sign is set.
    pub fn is_negative(self) -> bool {
        self.value().is_negative()
    }

    fn of(value: Format) -> Self {
        Self(value.to_bits())
    }

    fn value(self) -> Format {
        Format::from_bits(self.0)
    }
}

impl PartialEq for LongDouble {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl PartialOrd for LongDouble {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.value().partial_cmp(&other.value())
    }
}

impl core::ops::Add for LongDouble {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::of((self.value() + other.value()).value)
    }
}

impl core::ops::Sub for LongDouble {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::of((self.value() - other.value()).value)
    }
}

impl core::ops::Mul for LongDouble {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::of((self.value() * other.value()).value)
    }
}
