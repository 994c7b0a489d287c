//! Minimum and maximum with their index. Seldom long: one function for all types.

use super::element::{Number, Operands, Operator};
use super::software::{Half, LongDouble, Quad};
use std::cmp::Ordering;

/// `MinLoc` or `MaxLoc` of a value and an index.
#[derive(Clone, Copy, Debug)]
pub struct Located {
    wanted: Ordering,
    value: Number,
    index: Number,
}

/// A number that can be compared: exact for every type.
#[derive(PartialEq, PartialOrd)]
enum Exact {
    Integer(i128),
    Float(f64),
    Half(Half),
    LongDouble(LongDouble),
    Quad(Quad),
}

impl Located {
    /// The operator, if it is one of both.
    pub fn new(operator: Operator, value: Number, index: Number) -> Option<Self> {
        let wanted = match operator {
            Operator::MinLoc => Ordering::Less,
            Operator::MaxLoc => Ordering::Greater,
            _ => return None,
        };
        Some(Self {
            wanted,
            value,
            index,
        })
    }

    /// Combines elements of `bytes` bytes.
    pub fn apply(&self, operands: Operands, bytes: usize) {
        match operands {
            Operands::Apart { left, right, into } => {
                into.copy_from_slice(left);
                self.apply(Operands::IntoLeft { into, right }, bytes);
            }
            Operands::IntoLeft { into, right } => {
                for (into, right) in into.chunks_exact_mut(bytes).zip(right.chunks_exact(bytes)) {
                    if !self.takes_left(into, right) {
                        into.copy_from_slice(right);
                    }
                }
            }
            Operands::IntoRight { left, into } => {
                for (left, into) in left.chunks_exact(bytes).zip(into.chunks_exact_mut(bytes)) {
                    if self.takes_left(left, into) {
                        into.copy_from_slice(left);
                    }
                }
            }
        }
    }

    fn takes_left(&self, left: &[u8], right: &[u8]) -> bool {
        let index_at = self.value.bytes().max(self.index.bytes());
        let decode = |bytes: &[u8]| {
            let value = exact(self.value, bytes);
            (value, exact(self.index, &bytes[index_at..]))
        };
        let ((left, left_index), (right, right_index)) = (decode(left), decode(right));
        match (left.partial_cmp(&right), left.is_nan(), right.is_nan()) {
            (Some(Ordering::Equal), ..) | (_, true, true) => {
                left_index <= right_index || right_index.is_nan()
            }
            (order, left_is_nan, _) => left_is_nan || order == Some(self.wanted),
        }
    }
}

impl Exact {
    fn is_nan(&self) -> bool {
        match self {
            Self::Integer(_) => false,
            Self::Float(value) => value.is_nan(),
            Self::Half(value) => value.is_nan(),
            Self::LongDouble(value) => value.is_nan(),
            Self::Quad(value) => value.is_nan(),
        }
    }
}

/// The number at the beginning of `bytes`.
fn exact(number: Number, bytes: &[u8]) -> Exact {
    macro_rules! decode {
        ($type:ty) => {
            <$type>::from_ne_bytes(*bytes.first_chunk().expect("a whole number")).into()
        };
    }
    match number {
        Number::I8 => Exact::Integer(decode!(i8)),
        Number::I16 => Exact::Integer(decode!(i16)),
        Number::I32 => Exact::Integer(decode!(i32)),
        Number::I64 => Exact::Integer(decode!(i64)),
        Number::I128 => Exact::Integer(decode!(i128)),
        Number::U8 => Exact::Integer(decode!(u8)),
        Number::U16 => Exact::Integer(decode!(u16)),
        Number::U32 => Exact::Integer(decode!(u32)),
        Number::U64 => Exact::Integer(decode!(u64)),
        Number::F16 => Exact::Half(decode!(Half)),
        Number::F128 => Exact::Quad(decode!(Quad)),
        Number::F32 => Exact::Float(decode!(f32)),
        Number::F64 => Exact::Float(decode!(f64)),
        Number::LongDouble => Exact::LongDouble(decode!(LongDouble)),
    }
}
