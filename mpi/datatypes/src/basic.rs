//! Basic types: what a type map is made of.

use refrain_collectives::reduction::{Element, Number};

/// What the bytes of a basic type mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// An integer in two's complement.
    Signed,
    /// An integer without a sign.
    Unsigned,
    /// A number of IEEE 754.
    Float,
    /// C's `long double`.
    LongDouble,
    /// Two numbers of IEEE 754.
    Complex,
    /// Two `long double`.
    LongDoubleComplex,
    /// C's `_Bool`.
    Bool,
    /// Fortran's LOGICAL.
    Logical,
    /// A character.
    Character,
    /// Bytes without a meaning.
    Byte,
}

/// A basic type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basic {
    /// What it means.
    pub class: Class,
    /// Its bytes in memory.
    pub bytes: u8,
    /// Its bytes in external32 (MPI-5.0, 14.5.2).
    pub external_bytes: u8,
}

impl Basic {
    /// A type that has as many bytes in memory as in external32.
    pub(crate) const fn new(class: Class, bytes: u8) -> Self {
        Self {
            class,
            bytes,
            external_bytes: bytes,
        }
    }

    /// The same type with another length in external32.
    pub(crate) const fn external(self, external_bytes: u8) -> Self {
        Self {
            external_bytes,
            ..self
        }
    }

    /// Numbers in one value: two if it is complex.
    pub(crate) fn parts(self) -> u8 {
        match self.class {
            Class::Complex | Class::LongDoubleComplex => 2,
            _ => 1,
        }
    }

    /// The alignment in a struct of C, in bytes.
    pub fn alignment_bytes(self) -> u8 {
        self.bytes / self.parts()
    }

    /// As the operand of a reduction, if it can be one.
    pub fn element(self) -> Option<Element> {
        if let Some(number) = self.number() {
            return Some(Element::Number(number));
        }
        match (self.class, self.bytes) {
            (Class::Complex, 4) => Some(Element::Complex16),
            (Class::Complex, 8) => Some(Element::Complex32),
            (Class::Complex, 16) => Some(Element::Complex64),
            (Class::Complex, 32) => Some(Element::Complex128),
            (Class::LongDoubleComplex, _) => Some(Element::ComplexLongDouble),
            (Class::Bool, 1) => Some(Element::Bool),
            (Class::Byte, 1) => Some(Element::Byte),
            _ => None,
        }
    }

    /// As a number of a reduction. A LOGICAL is an integer that is zero or not.
    pub(crate) fn number(self) -> Option<Number> {
        Some(match (self.class, self.bytes) {
            (Class::Signed | Class::Logical, 1) => Number::I8,
            (Class::Signed | Class::Logical, 2) => Number::I16,
            (Class::Signed | Class::Logical, 4) => Number::I32,
            (Class::Signed | Class::Logical, 8) => Number::I64,
            (Class::Signed | Class::Logical, 16) => Number::I128,
            (Class::Unsigned, 1) => Number::U8,
            (Class::Unsigned, 2) => Number::U16,
            (Class::Unsigned, 4) => Number::U32,
            (Class::Unsigned, 8) => Number::U64,
            (Class::Float, 2) => Number::F16,
            (Class::Float, 4) => Number::F32,
            (Class::Float, 8) => Number::F64,
            (Class::Float, 16) => Number::F128,
            (Class::LongDouble, _) => Number::LongDouble,
            _ => return None,
        })
    }
}
