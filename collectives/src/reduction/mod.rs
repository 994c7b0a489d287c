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
//! - a `long double` is that of C on this machine: sums and products have the bits that C computes.
//!   They are computed by software, much slower than those of `f64`;
//! - logical operators take 0 for false and anything else for true, and give 0 or 1;
//! - `MinLoc` and `MaxLoc` give one operand as it is, with its padding: of equal values the one
//!   with the lower index, of equal indices the left one. −0 and +0 are equal. A NaN goes before
//!   all numbers, and a NaN index behind.
//!
//! So these operators commute. Sums and products of floating point do not associate: the order
//! in which a schedule combines is part of the result.

mod element;
mod floats;
mod located;
mod numbers;
mod software;

pub use element::{Element, Number, Operands, Operator, Unsupported};

use std::fmt;
use std::sync::Arc;

/// Combines two vectors: `right` = `left` ∘ `right`.
type OwnOperator = dyn Fn(&[u8], &mut [u8]) + Send + Sync;

/// An operator for vectors of one kind of element.
#[derive(Clone)]
pub struct Reduction {
    kernel: Kernel,
    element_bytes: usize,
    commutative: bool,
    /// `None`: the caller's own.
    name: Option<(Operator, Element)>,
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
            name: Some((operator, element)),
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
            name: None,
        }
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Whether it is an operator of the library: its operands may be anywhere.
    pub fn is_of_library(&self) -> bool {
        self.name.is_some()
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

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.name, self.commutative) {
            (Some((operator, element)), _) => write!(f, "{operator:?} of {element}"),
            (None, true) => write!(f, "an own operator that commutes"),
            (None, false) => write!(f, "an own operator"),
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
