//! Element types and operators as C names them.

#![allow(unsafe_code, reason = "calls operators of programs in C")]

use super::failure::Failure;
use core::ffi::c_void;
use refrain::collective::{Element, Number, Operator, Reduction};

/// `refrain_operator` of the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OperatorOfC {
    code: u32,
    commutative: i32,
    combine: Option<Combine>,
    context: *mut c_void,
}

/// `refrain_combine` of the header.
type Combine = unsafe extern "C" fn(*const c_void, *mut c_void, u64, *mut c_void);

/// In the order of their codes, from 1.
const OPERATORS: [Operator; 12] = [
    Operator::Sum,
    Operator::Product,
    Operator::Min,
    Operator::Max,
    Operator::LogicalAnd,
    Operator::LogicalOr,
    Operator::LogicalXor,
    Operator::BitAnd,
    Operator::BitOr,
    Operator::BitXor,
    Operator::MinLoc,
    Operator::MaxLoc,
];
/// The code of operators of the program.
const OWN: u32 = 13;

/// In the order of their codes, from 1.
const ELEMENTS: [Element; 16] = [
    Element::Number(Number::I8),
    Element::Number(Number::I16),
    Element::Number(Number::I32),
    Element::Number(Number::I64),
    Element::Number(Number::U8),
    Element::Number(Number::U16),
    Element::Number(Number::U32),
    Element::Number(Number::U64),
    Element::Number(Number::F32),
    Element::Number(Number::F64),
    Element::Complex32,
    Element::Complex64,
    Element::Bool,
    Element::Byte,
    Element::Number(Number::LongDouble),
    Element::ComplexLongDouble,
];

/// `refrain_type` of the header.
enum Type {
    Known(Element),
    /// `REFRAIN_BYTES`
    Opaque(u64),
}

impl Type {
    fn new(code: u64) -> Result<Self, Failure> {
        let number = |code: u64| match element(code) {
            Some(Element::Number(number)) => Some(number),
            _ => None,
        };
        let known = match code {
            0x100..0x200 => Option::zip(number(code >> 4 & 0xf), number(code & 0xf))
                .map(|(value, index)| Element::Located { value, index }),
            _ if code >= 1 << 16 && code & 0xffff == 0 => return Ok(Self::Opaque(code >> 16)),
            _ => element(code),
        };
        known.map(Self::Known).ok_or_else(|| {
            Failure::argument(format_args!(
                "element type {code:#x} does not exist: see enum refrain_element, REFRAIN_LOCATED and REFRAIN_BYTES"
            ))
        })
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Known(element) => element.bytes() as u64,
            Self::Opaque(bytes) => *bytes,
        }
    }
}

fn element(code: u64) -> Option<Element> {
    ELEMENTS.get((code as usize).wrapping_sub(1)).copied()
}

/// Bytes of an element.
pub fn element_bytes(code: u64) -> Result<u64, Failure> {
    Ok(Type::new(code)?.bytes())
}

impl OperatorOfC {
    /// The operator for elements of a type.
    ///
    /// # Safety
    /// An operator of the program can be called with its context as long as the result lives.
    pub unsafe fn reduction(&self, element: u64) -> Result<Reduction, Failure> {
        let element = Type::new(element)?;
        if self.code == OWN {
            let Some(combine) = self.combine else {
                return Err(Failure::argument("combine is NULL"));
            };
            let own = Own {
                combine,
                context: self.context,
                element_bytes: element.bytes(),
            };
            let (bytes, commutative) = (element.bytes() as usize, self.commutative != 0);
            let combine = move |left: &[u8], right: &mut [u8]| own.call(left, right);
            return Ok(Reduction::own(bytes, commutative, combine));
        }
        let Some(operator) = OPERATORS.get((self.code as usize).wrapping_sub(1)) else {
            return Err(Failure::argument(format_args!(
                "operator {} does not exist: see REFRAIN_SUM and those after it",
                self.code
            )));
        };
        match element {
            Type::Known(element) => Reduction::new(*operator, element).map_err(Failure::argument),
            Type::Opaque(_) => Err(Failure::argument(
                "elements of REFRAIN_BYTES are combined only by operators of refrain_own",
            )),
        }
    }
}

/// An operator of the program.
struct Own {
    combine: Combine,
    context: *mut c_void,
    element_bytes: u64,
}

// SAFETY: C uses a world in one thread only, and the operator is called there.
unsafe impl Send for Own {}
// SAFETY: likewise.
unsafe impl Sync for Own {}

impl Own {
    fn call(&self, left: &[u8], right: &mut [u8]) {
        let count = right.len() as u64 / self.element_bytes;
        let (left, right) = (left.as_ptr().cast(), right.as_mut_ptr().cast());
        // SAFETY: the promise of `OperatorOfC::reduction`; both have `count` elements.
        unsafe { (self.combine)(left, right, count, self.context) }
    }
}
