//! Kernels for numbers: loops over arrays of bytes that the compiler vectorises.
//!
//! Operands may be unaligned. Each element is read from its bytes and written to them, which
//! becomes a plain load and store.

use super::element::{Element, Number, Operands, Operator};

/// Combines elements of `N` bytes.
#[inline(always)]
fn each<const N: usize>(operands: Operands, combine: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    match operands {
        Operands::Apart { left, right, into } => {
            let (left, right) = (left.as_chunks().0, right.as_chunks().0);
            for ((into, left), right) in into.as_chunks_mut().0.iter_mut().zip(left).zip(right) {
                *into = combine(*left, *right);
            }
        }
        Operands::IntoLeft { into, right } => {
            for (into, right) in into.as_chunks_mut().0.iter_mut().zip(right.as_chunks().0) {
                *into = combine(*into, *right);
            }
        }
        Operands::IntoRight { left, into } => {
            for (into, left) in into.as_chunks_mut().0.iter_mut().zip(left.as_chunks().0) {
                *into = combine(*left, *into);
            }
        }
    }
}

/// A kernel that combines numbers of a type by an expression.
macro_rules! kernel {
    ($number:ty, |$left:ident, $right:ident| $result:expr) => {
        Some(|operands: Operands| {
            each(operands, |left, right| {
                let $left = <$number>::from_ne_bytes(left);
                let $right = <$number>::from_ne_bytes(right);
                let result: $number = $result;
                result.to_ne_bytes()
            })
        })
    };
}

macro_rules! integer {
    ($number:ty, $operator:expr) => {
        match $operator {
            Operator::Sum => kernel!($number, |a, b| a.wrapping_add(b)),
            Operator::Product => kernel!($number, |a, b| a.wrapping_mul(b)),
            Operator::Min => kernel!($number, |a, b| a.min(b)),
            Operator::Max => kernel!($number, |a, b| a.max(b)),
            Operator::LogicalAnd => kernel!($number, |a, b| ((a != 0) & (b != 0)).into()),
            Operator::LogicalOr => kernel!($number, |a, b| (a | b != 0).into()),
            Operator::LogicalXor => kernel!($number, |a, b| ((a != 0) ^ (b != 0)).into()),
            bitwise => self::bitwise(bitwise),
        }
    };
}

macro_rules! float {
    ($number:ident, $operator:expr) => {
        match $operator {
            Operator::Sum => kernel!($number, |a, b| $number::plain(a + b)),
            Operator::Product => kernel!($number, |a, b| $number::plain(a * b)),
            Operator::Min => kernel!($number, |a, b| $number::lesser(a, b)),
            Operator::Max => kernel!($number, |a, b| $number::greater(a, b)),
            _ => None,
        }
    };
}

/// What complex kernels and minima need of a type.
macro_rules! float_functions {
    ($number:ident, $bytes:literal, $nan:literal) => {
        mod $number {
            use super::{Operands, each};

            const NAN: $number = $number::from_bits($nan);

            pub fn plain(result: $number) -> $number {
                if result.is_nan() { NAN } else { result }
            }

            pub fn lesser(a: $number, b: $number) -> $number {
                let lesser = if a < b { a } else { b };
                // Equal: differ at most in the sign of zero.
                let equal = $number::from_bits(a.to_bits() | b.to_bits());
                let result = if a == b { equal } else { lesser };
                if a.is_nan() | b.is_nan() { NAN } else { result }
            }

            pub fn greater(a: $number, b: $number) -> $number {
                let greater = if a > b { a } else { b };
                let equal = $number::from_bits(a.to_bits() & b.to_bits());
                let result = if a == b { equal } else { greater };
                if a.is_nan() | b.is_nan() { NAN } else { result }
            }

            /// Combines elements of a real and an imaginary part.
            #[inline(always)]
            pub fn complex(
                operands: Operands,
                combine: impl Fn([$number; 2], [$number; 2]) -> [$number; 2],
            ) {
                let decode = |bytes: [u8; 2 * $bytes]| {
                    let parts = bytes.as_chunks::<$bytes>().0;
                    [parts[0], parts[1]].map($number::from_ne_bytes)
                };
                each(operands, |left: [u8; 2 * $bytes], right| {
                    let result = combine(decode(left), decode(right)).map(plain);
                    let mut bytes = [0; 2 * $bytes];
                    for (into, part) in bytes.as_chunks_mut().0.iter_mut().zip(result) {
                        *into = part.to_ne_bytes();
                    }
                    bytes
                });
            }
        }
    };
}

float_functions!(f32, 4, 0x7fc0_0000);
float_functions!(f64, 8, 0x7ff8_0000_0000_0000);

macro_rules! complex {
    ($number:ident, $operator:expr) => {
        match $operator {
            Operator::Sum => Some(|operands: Operands| {
                $number::complex(operands, |[a, b], [c, d]| [a + c, b + d]);
            }),
            Operator::Product => Some(|operands: Operands| {
                $number::complex(operands, |[a, b], [c, d]| [a * c - b * d, a * d + b * c]);
            }),
            _ => None,
        }
    };
}

/// The kernel of `operator` for `element`, if there is one.
pub fn kernel(operator: Operator, element: Element) -> Option<fn(Operands)> {
    match element {
        Element::Number(number) => match number {
            Number::I8 => integer!(i8, operator),
            Number::I16 => integer!(i16, operator),
            Number::I32 => integer!(i32, operator),
            Number::I64 => integer!(i64, operator),
            Number::U8 => integer!(u8, operator),
            Number::U16 => integer!(u16, operator),
            Number::U32 => integer!(u32, operator),
            Number::U64 => integer!(u64, operator),
            Number::F32 => float!(f32, operator),
            Number::F64 => float!(f64, operator),
        },
        Element::Complex32 => complex!(f32, operator),
        Element::Complex64 => complex!(f64, operator),
        Element::Bool => match operator {
            Operator::LogicalAnd | Operator::LogicalOr | Operator::LogicalXor => {
                integer!(u8, operator)
            }
            _ => None,
        },
        Element::Byte => bitwise(operator),
        Element::Located { .. } => None,
    }
}

/// The same for elements of any size.
fn bitwise(operator: Operator) -> Option<fn(Operands)> {
    match operator {
        Operator::BitAnd => kernel!(u8, |a, b| a & b),
        Operator::BitOr => kernel!(u8, |a, b| a | b),
        Operator::BitXor => kernel!(u8, |a, b| a ^ b),
        _ => None,
    }
}
