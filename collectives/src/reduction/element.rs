//! Operators, elements and operands: what a reduction is made of.

use super::software::LongDouble;
use std::fmt;

/// An operator that the library knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// a + b
    Sum,
    /// a · b
    Product,
    /// The lesser.
    Min,
    /// The greater.
    Max,
    /// Both are true.
    LogicalAnd,
    /// At least one is true.
    LogicalOr,
    /// Exactly one is true.
    LogicalXor,
    /// Each bit: both are set.
    BitAnd,
    /// Each bit: at least one is set.
    BitOr,
    /// Each bit: exactly one is set.
    BitXor,
    /// The lesser value, with its index.
    MinLoc,
    /// The greater value, with its index.
    MaxLoc,
}

/// A number, in the order of bytes of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the types")]
pub enum Number {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
    F128,
    /// That of C on this machine.
    LongDouble,
}

/// What an element of a vector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// A number.
    Number(Number),
    /// Real and imaginary part, each of 2 bytes.
    Complex16,
    /// Real and imaginary part, each `f32`.
    Complex32,
    /// Real and imaginary part, each `f64`.
    Complex64,
    /// Real and imaginary part, each of 16 bytes.
    Complex128,
    /// Real and imaginary part, each `long double` of C.
    ComplexLongDouble,
    /// A truth value in one byte.
    Bool,
    /// A byte that is no number.
    Byte,
    /// A value and where it is, like a structure in C.
    Located {
        /// The value.
        value: Number,
        /// Where it is.
        index: Number,
    },
}

impl Number {
    /// Bytes of this number, which are also its alignment.
    pub fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
            Self::I128 | Self::F128 => 16,
            Self::LongDouble => size_of::<LongDouble>(),
        }
    }
}

impl Element {
    /// Bytes from one element to the next.
    pub fn bytes(self) -> usize {
        match self {
            Self::Number(number) => number.bytes(),
            Self::Complex16 => 4,
            Self::Complex32 => 8,
            Self::Complex64 => 16,
            Self::Complex128 => 32,
            Self::ComplexLongDouble => 2 * size_of::<LongDouble>(),
            Self::Bool | Self::Byte => 1,
            Self::Located { value, index } => 2 * value.bytes().max(index.bytes()),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number:?}"),
            Self::Located { value, index } => write!(f, "({value:?}, {index:?})"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// An operator that does not exist for an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {operator:?} of {element}: use a number that has it, or an operator of your own")]
pub struct Unsupported {
    /// The operator.
    pub operator: Operator,
    /// The element.
    pub element: Element,
}

/// Dense vectors of elements, not necessarily aligned, and where their combination goes.
#[derive(Debug)]
pub enum Operands<'a> {
    /// `into` = `left` ∘ `right`.
    Apart {
        /// The left operand.
        left: &'a [u8],
        /// The right operand.
        right: &'a [u8],
        /// The result.
        into: &'a mut [u8],
    },
    /// `into` = `into` ∘ `right`.
    IntoLeft {
        /// The left operand, then the result.
        into: &'a mut [u8],
        /// The right operand.
        right: &'a [u8],
    },
    /// `into` = `left` ∘ `into`.
    IntoRight {
        /// The left operand.
        left: &'a [u8],
        /// The right operand, then the result.
        into: &'a mut [u8],
    },
}

impl Operands<'_> {
    /// Bytes of each vector, if all have the same length.
    pub(super) fn bytes(&self) -> Option<usize> {
        let (into, others) = match self {
            Self::Apart { left, right, into } => (into.len(), [left.len(), right.len()]),
            Self::IntoLeft { into, right: other } | Self::IntoRight { left: other, into } => {
                (into.len(), [other.len(); 2])
            }
        };
        (others == [into; 2]).then_some(into)
    }
}
