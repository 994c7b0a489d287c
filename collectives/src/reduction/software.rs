//! Floating-point numbers that Rust does not have: C's `long double`, and those of 2 and 16 bytes of
//! Fortran. Computed by software, bit by bit as compilers compute them.

use rustc_apfloat::Float;
use rustc_apfloat::ieee;
use std::cmp::Ordering;

/// 80 bits of the x87, with 6 bytes of padding behind them, and the positive quiet NaN.
#[cfg(target_arch = "x86_64")]
type OfC = ieee::X87DoubleExtended;
#[cfg(target_arch = "x86_64")]
const NAN_OF_C: u128 = 0x7fff << 64 | 3 << 62;

/// As on aarch64 and riscv64.
#[cfg(not(target_arch = "x86_64"))]
type OfC = ieee::Quad;
#[cfg(not(target_arch = "x86_64"))]
const NAN_OF_C: u128 = NAN_OF_16_BYTES;

const NAN_OF_16_BYTES: u128 = 0x7fff << 112 | 1 << 111;

macro_rules! software {
    ($(#[$about:meta])* $name:ident, $format:ty, $bits:ty, $nan:expr) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name($bits);

        impl $name {
            /// The positive quiet NaN without payload.
            pub const NAN: Self = Self($nan);

            /// From its bytes in memory.
            pub fn from_ne_bytes(bytes: [u8; size_of::<Self>()]) -> Self {
                let unused = <$bits>::BITS - <$format>::BITS as u32;
                Self(<$bits>::from_ne_bytes(bytes) & <$bits>::MAX >> unused)
            }

            /// Its bytes in memory. Padding is 0.
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

            fn of(value: $format) -> Self {
                Self(value.to_bits() as $bits)
            }

            fn value(self) -> $format {
                <$format>::from_bits(self.0.into())
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.value() == other.value()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.value().partial_cmp(&other.value())
            }
        }

        impl core::ops::Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self::of((self.value() + other.value()).value)
            }
        }

        impl core::ops::Sub for $name {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                Self::of((self.value() - other.value()).value)
            }
        }

        impl core::ops::Mul for $name {
            type Output = Self;

            fn mul(self, other: Self) -> Self {
                Self::of((self.value() * other.value()).value)
            }
        }
    };
}

software! {
    /// A `long double` of C on this machine.
    LongDouble, OfC, u128, NAN_OF_C
}
software! {
    /// binary16 of IEEE 754.
    Half, ieee::Half, u16, 0x7e00
}
software! {
    /// binary128 of IEEE 754.
    Quad, ieee::Quad, u128, NAN_OF_16_BYTES
}
