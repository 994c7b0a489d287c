//! Operators of reductions on bytes.
//!
//! The result of an operator is a function of the values of its operands, bit by bit:
//!
//! - integers wrap around;
//! - a NaN that comes out of sum, product, minimum or maximum is always the positive quiet NaN
//!   without payload, whichever NaN went in;
//! - minimum and maximum give NaN if one operand is NaN, and −0 is below +0 (IEEE 754-2019
//!   `minimum`, `maximum`);
//! - complex products are (ac − bd, ad + bc), without fused operations;
//! - logical operators take 0 for false and anything else for true, and give 0 or 1;
//! - `MinLoc` and `MaxLoc` give one operand as it is, with its padding: of equal values the one
//!   with the lower index, of equal indices the left one. −0 and +0 are equal. A NaN goes before
//!   all numbers, and a NaN index behind.
//!
//! So these operators commute. Sums and products of floating point do not associate: the order
//! in which a schedule combines is part of the result.

mod located;
mod numbers;

use std::fmt;
use std::sync::Arc;

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
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

/// What an element of a vector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// A number.
    Number(Number),
    /// Real and imaginary part, each `f32`.
    Complex32,
    /// Real and imaginary part, each `f64`.
    Complex64,
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
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

impl Element {
    /// Bytes from one element to the next.
    pub fn bytes(self) -> usize {
        match self {
            Self::Number(number) => number.bytes(),
            Self::Complex32 => 8,
            Self::Complex64 => 16,
            Self::Bool | Self::Byte => 1,
            Self::Located { value, index } => 2 * value.bytes().max(index.bytes()),
        }
    }
}

/// An operator that does not exist for an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {operator:?} of {element:?}: use a number that has it, or an operator of your own")]
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
    fn bytes(&self) -> Option<usize> {
        let (into, others) = match self {
            Self::Apart { left, right, into } => (into.len(), [left.len(), right.len()]),
            Self::IntoLeft { into, right: other } | Self::IntoRight { left: other, into } => {
                (into.len(), [other.len(); 2])
            }
        };
        (others == [into; 2]).then_some(into)
    }
}

/// Combines two vectors: `right` = `left` ∘ `right`.
type OwnOperator = dyn Fn(&[u8], &mut [u8]) + Send + Sync;

/// An operator for vectors of one kind of element.
#[derive(Clone)]
pub struct Reduction {
    kernel: Kernel,
    element_bytes: usize,
    commutative: bool,
}

#[derive(Clone)]
enum Kernel {
    Numbers(fn(Operands)),
    Located(located::Located),
    Own(Arc<OwnOperator>),
}

impl Reduction {
    /// `operator` for vectors of `element`.
    pub fn new(operator: Operator, element: Element) -> Result<Self, Unsupported> {
        let kernel = match element {
            Element::Located { value, index } => {
                located::Located::new(operator, value, index).map(Kernel::Located)
            }
            _ => numbers::kernel(operator, element).map(Kernel::Numbers),
        };
        Ok(Self {
            kernel: kernel.ok_or(Unsupported { operator, element })?,
            element_bytes: element.bytes(),
            commutative: true,
        })
    }

    /// The caller's own operator: `combine(left, right)` replaces each element of `right` by
    /// the combination of both. It must associate, and be a function of its operands alone.
    pub fn own(
        element_bytes: usize,
        commutative: bool,
        combine: impl Fn(&[u8], &mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        Self {
            kernel: Kernel::Own(Arc::new(combine)),
            element_bytes,
            commutative,
        }
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Whether the order of operands makes no difference.
    pub fn commutative(&self) -> bool {
        self.commutative
    }

    /// Combines two vectors.
    ///
    /// # Panics
    ///
    /// If the vectors differ in length, or end within an element.
    pub fn apply(&self, operands: Operands) {
        let bytes = operands.bytes().expect("vectors of one length");
        assert!(bytes.is_multiple_of(self.element_bytes), "whole elements");
        match &self.kernel {
            Kernel::Numbers(kernel) => kernel(operands),
            Kernel::Located(located) => located.apply(operands, self.element_bytes),
            Kernel::Own(combine) => match operands {
                Operands::IntoRight { left, into } => combine(left, into),
                Operands::Apart { left, right, into } => {
                    into.copy_from_slice(right);
                    combine(left, into);
                }
                Operands::IntoLeft { into, right } => {
                    let mut result = right.to_vec();
                    combine(into, &mut result);
                    into.copy_from_slice(&result);
                }
            },
        }
    }
}

impl fmt::Debug for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Reduction")
            .field("element_bytes", &self.element_bytes)
            .field("commutative", &self.commutative)
            .finish_non_exhaustive()
    }
}
