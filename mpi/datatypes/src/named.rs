//! The predefined types of the ABI.

use crate::basic::Class::{
    Bool, Byte, Character, Complex, Float, Logical, LongDouble, LongDoubleComplex, Signed, Unsigned,
};
use crate::basic::{Basic, Class};
use refrain_collectives::reduction::Element;

/// A predefined type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Named {
    /// Its handle in the ABI.
    pub handle: u16,
    /// Its name in C.
    pub name: &'static str,
    /// The value.
    pub value: Basic,
    /// The index behind it, of types for MPI_MINLOC and MPI_MAXLOC.
    pub index: Option<Basic>,
}

const fn row(handle: u16, name: &'static str, value: Basic) -> Named {
    Named {
        handle,
        name,
        value,
        index: None,
    }
}

const fn basic(handle: u16, name: &'static str, class: Class, bytes: u8) -> Named {
    row(handle, name, Basic::new(class, bytes))
}

const fn pair(handle: u16, name: &'static str, value: Basic, index: Basic) -> Named {
    Named {
        index: Some(index),
        ..row(handle, name, value)
    }
}

const SHORT: Basic = Basic::new(Signed, 2);
const INT: Basic = Basic::new(Signed, 4);
const LONG: Basic = Basic::new(Signed, 8).external(4);
const FLOAT: Basic = Basic::new(Float, 4);
const DOUBLE: Basic = Basic::new(Float, 8);
pub(crate) const LONG_DOUBLE: Basic = Basic::new(LongDouble, 16);
pub(crate) const LONG_DOUBLE_COMPLEX: Basic = Basic::new(LongDoubleComplex, 32);

/// All predefined types, by handle. Those of Fortran are as `gfortran` has them without options.
pub static NAMED: &[Named] = &[
    basic(513, "MPI_AINT", Signed, 8),
    basic(514, "MPI_COUNT", Signed, 8),
    basic(515, "MPI_OFFSET", Signed, 8),
    basic(519, "MPI_PACKED", Byte, 1),
    row(520, "MPI_SHORT", SHORT),
    row(521, "MPI_INT", INT),
    row(522, "MPI_LONG", LONG),
    basic(523, "MPI_LONG_LONG_INT", Signed, 8),
    basic(524, "MPI_UNSIGNED_SHORT", Unsigned, 2),
    basic(525, "MPI_UNSIGNED", Unsigned, 4),
    row(
        526,
        "MPI_UNSIGNED_LONG",
        Basic::new(Unsigned, 8).external(4),
    ),
    basic(527, "MPI_UNSIGNED_LONG_LONG", Unsigned, 8),
    row(528, "MPI_FLOAT", FLOAT),
    basic(530, "MPI_C_COMPLEX", Complex, 8),
    basic(531, "MPI_CXX_FLOAT_COMPLEX", Complex, 8),
    row(532, "MPI_DOUBLE", DOUBLE),
    basic(534, "MPI_C_DOUBLE_COMPLEX", Complex, 16),
    basic(535, "MPI_CXX_DOUBLE_COMPLEX", Complex, 16),
    basic(536, "MPI_LOGICAL", Logical, 4),
    row(537, "MPI_INTEGER", INT),
    row(538, "MPI_REAL", FLOAT),
    basic(539, "MPI_COMPLEX", Complex, 8),
    row(540, "MPI_DOUBLE_PRECISION", DOUBLE),
    basic(541, "MPI_DOUBLE_COMPLEX", Complex, 16),
    basic(542, "MPI_CHARACTER", Character, 1),
    row(544, "MPI_LONG_DOUBLE", LONG_DOUBLE),
    row(548, "MPI_C_LONG_DOUBLE_COMPLEX", LONG_DOUBLE_COMPLEX),
    row(549, "MPI_CXX_LONG_DOUBLE_COMPLEX", LONG_DOUBLE_COMPLEX),
    pair(552, "MPI_FLOAT_INT", FLOAT, INT),
    pair(553, "MPI_DOUBLE_INT", DOUBLE, INT),
    pair(554, "MPI_LONG_INT", LONG, INT),
    pair(555, "MPI_2INT", INT, INT),
    pair(556, "MPI_SHORT_INT", SHORT, INT),
    pair(557, "MPI_LONG_DOUBLE_INT", LONG_DOUBLE, INT),
    pair(560, "MPI_2REAL", FLOAT, FLOAT),
    pair(561, "MPI_2DOUBLE_PRECISION", DOUBLE, DOUBLE),
    pair(562, "MPI_2INTEGER", INT, INT),
    basic(568, "MPI_C_BOOL", Bool, 1),
    basic(569, "MPI_CXX_BOOL", Bool, 1),
    row(572, "MPI_WCHAR", Basic::new(Character, 4).external(2)),
    basic(576, "MPI_INT8_T", Signed, 1),
    basic(577, "MPI_UINT8_T", Unsigned, 1),
    basic(579, "MPI_CHAR", Character, 1),
    basic(580, "MPI_SIGNED_CHAR", Signed, 1),
    basic(581, "MPI_UNSIGNED_CHAR", Unsigned, 1),
    basic(583, "MPI_BYTE", Byte, 1),
    basic(584, "MPI_INT16_T", Signed, 2),
    basic(585, "MPI_UINT16_T", Unsigned, 2),
    basic(592, "MPI_INT32_T", Signed, 4),
    basic(593, "MPI_UINT32_T", Unsigned, 4),
    basic(600, "MPI_INT64_T", Signed, 8),
    basic(601, "MPI_UINT64_T", Unsigned, 8),
    basic(704, "MPI_LOGICAL1", Logical, 1),
    basic(705, "MPI_INTEGER1", Signed, 1),
    basic(712, "MPI_LOGICAL2", Logical, 2),
    basic(713, "MPI_INTEGER2", Signed, 2),
    basic(714, "MPI_REAL2", Float, 2),
    basic(720, "MPI_LOGICAL4", Logical, 4),
    basic(721, "MPI_INTEGER4", Signed, 4),
    basic(722, "MPI_REAL4", Float, 4),
    basic(723, "MPI_COMPLEX4", Complex, 4),
    basic(728, "MPI_LOGICAL8", Logical, 8),
    basic(729, "MPI_INTEGER8", Signed, 8),
    basic(730, "MPI_REAL8", Float, 8),
    basic(731, "MPI_COMPLEX8", Complex, 8),
    basic(736, "MPI_LOGICAL16", Logical, 16),
    basic(737, "MPI_INTEGER16", Signed, 16),
    basic(738, "MPI_REAL16", Float, 16),
    basic(739, "MPI_COMPLEX16", Complex, 16),
    basic(747, "MPI_COMPLEX32", Complex, 32),
];

impl Named {
    /// The type of this handle.
    pub fn of(handle: u16) -> Option<&'static Self> {
        let at = NAMED.binary_search_by_key(&handle, |named| named.handle);
        at.ok().map(|at| &NAMED[at])
    }

    /// As the operand of a reduction, if it can be one.
    pub fn element(&self) -> Option<Element> {
        match self.index {
            None => self.value.element(),
            Some(index) => Some(Element::Located {
                value: self.value.number()?,
                index: index.number()?,
            }),
        }
    }
}
