//! Kernels for numbers: loops over arrays of bytes that the compiler vectorises.
//!
//! Operands may be unaligned. Each element is read from its bytes and written to them, which
//! becomes a plain load and store.

use super::element::{Element, Number, Operands, Operator};
use super::floats::Rules;
use super::software::{Half, LongDouble, Quad};

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
            Operator::Sum => kernel!($number, |a, b| (a + b).plain()),
            Operator::Product => kernel!($number, |a, b| (a * b).plain()),
            Operator::Min => kernel!($number, |a, b| a.lesser(b)),
            Operator::Max => kernel!($number, |a, b| a.greater(b)),
            _ => None,
        }
    };
}

/// A kernel that combines elements of a real and an imaginary part.
macro_rules! complex_kernel {
    ($number:ident, |$left:pat_param, $right:pat_param| $result:expr) => {
        Some(|operands: Operands| {
            const BYTES: usize = size_of::<$number>();
            let decode = |bytes: [u8; 2 * BYTES]| {
                let parts = bytes.as_chunks::<BYTES>().0;
                [parts[0], parts[1]].map($number::from_ne_bytes)
            };
            each(operands, |left, right| {
                let ($left, $right) = (decode(left), decode(right));
                let parts: [$number; 2] = $result;
                let mut bytes = [0; 2 * BYTES];
                for (into, part) in bytes.as_chunks_mut().0.iter_mut().zip(parts) {
                    *into = part.plain().to_ne_bytes();
                }
                bytes
            });
        })
    };
}

macro_rules! complex {
    ($number:ident, $operator:expr) => {
        match $operator {
            Operator::Sum => complex_kernel!($number, |[a, b], [c, d]| [a + c, b + d]),
            Operator::Product => {
                complex_kernel!($number, |[a, b], [c, d]| [a * c - b * d, a * d + b * c])
            }
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
            Number::I128 => integer!(i128, operator),
            Number::U8 => integer!(u8, operator),
            Number::U16 => integer!(u16, operator),
            Number::U32 => integer!(u32, operator),
            Number::U64 => integer!(u64, operator),
            Number::F16 => float!(Half, operator),
            Number::F32 => float!(f32, operator),
            Number::F64 => float!(f64, operator),
            Number::F128 => float!(Quad, operator),
            Number::LongDouble => float!(LongDouble, operator),
        },
        Element::Complex16 => complex!(Half, operator),
        Element::Complex32 => complex!(f32, operator),
        Element::Complex64 => complex!(f64, operator),
        Element::Complex128 => complex!(Quad, operator),
        Element::ComplexLongDouble => complex!(LongDouble, operator),
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
