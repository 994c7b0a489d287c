//! Types of Fortran by precision, range and size (MPI-5.0, 19.1.9), with `gfortran`'s kinds.

use crate::basic::{Basic, Class};
use crate::contents::{Arguments, Combiner, Construction};
use crate::datatype::Datatype;
use crate::named::{LONG_DOUBLE, LONG_DOUBLE_COMPLEX, NAMED, Named};
use crate::shape::Shape;
use std::sync::Arc;

/// The class of MPI_Type_match_size; the values are those of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeClass {
    /// MPI_TYPECLASS_INTEGER.
    Integer = 192,
    /// MPI_TYPECLASS_REAL.
    Real = 193,
    /// MPI_TYPECLASS_COMPLEX.
    Complex = 194,
}

/// Kinds of REAL: digits, greatest decimal exponent, type.
const REALS: [(i32, i32, Basic); 4] = [
    (6, 37, Basic::new(Class::Float, 4)),
    (15, 307, Basic::new(Class::Float, 8)),
    (18, 4931, LONG_DOUBLE),
    (33, 4931, Basic::new(Class::Float, 16)),
];

/// Kinds of INTEGER: greatest decimal exponent, bytes.
const INTEGERS: [(i32, u8); 5] = [(2, 1), (4, 2), (9, 4), (18, 8), (38, 16)];

impl TypeClass {
    /// The type of this class that has `bytes` bytes, if there is one.
    pub fn of_size(self, bytes: i32) -> Option<&'static Named> {
        let prefix = match self {
            Self::Integer => "MPI_INTEGER",
            Self::Real => "MPI_REAL",
            Self::Complex => "MPI_COMPLEX",
        };
        let is_it = |named: &&Named| {
            let size = named.name.strip_prefix(prefix).map(str::parse);
            size == Some(Ok(bytes))
        };
        NAMED.iter().find(is_it)
    }
}

impl Datatype {
    /// The type of `selected_real_kind(precision, range)`; `None` for MPI_UNDEFINED. `None` when the
    /// compiler has no such type. Calls with equal arguments make types of their own: the caller
    /// keeps them.
    pub fn f90_real(precision: Option<i32>, range: Option<i32>) -> Option<Self> {
        let basic = real(precision, range)?;
        Some(kind(Combiner::F90Real, [precision, range], basic))
    }

    /// As [`f90_real`](Self::f90_real), of COMPLEX.
    pub fn f90_complex(precision: Option<i32>, range: Option<i32>) -> Option<Self> {
        let basic = match real(precision, range)? {
            LONG_DOUBLE => LONG_DOUBLE_COMPLEX,
            real => Basic::new(Class::Complex, 2 * real.bytes),
        };
        Some(kind(Combiner::F90Complex, [precision, range], basic))
    }

    /// As [`f90_real`](Self::f90_real), of `selected_int_kind(range)`.
    pub fn f90_integer(range: i32) -> Option<Self> {
        let (_, bytes) = INTEGERS
            .into_iter()
            .find(|(greatest, _)| range <= *greatest)?;
        let basic = Basic::new(Class::Signed, bytes);
        Some(kind(Combiner::F90Integer, [Some(range)], basic))
    }
}

fn real(precision: Option<i32>, range: Option<i32>) -> Option<Basic> {
    precision.or(range)?;
    let is_enough = |(digits, greatest, _): &(i32, i32, Basic)| {
        precision.is_none_or(|it| it <= *digits) && range.is_none_or(|it| it <= *greatest)
    };
    REALS.into_iter().find(is_enough).map(|(_, _, basic)| basic)
}

/// MPI_UNDEFINED.
const UNDEFINED: i32 = -32766;

fn kind<const N: usize>(combiner: Combiner, arguments: [Option<i32>; N], basic: Basic) -> Datatype {
    let integers = arguments.map(|it| it.unwrap_or(UNDEFINED));
    let construction = Construction::new(combiner, [Arguments::integers(integers)], Vec::new());
    Datatype::new(Arc::new(Shape::basic(basic)), construction)
}
