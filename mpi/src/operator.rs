//! Operators of reductions (MPI-5.0, section 6.9).

#![allow(unsafe_code, reason = "calls operators of the program")]

use super::abi::{Datatype, Op, Userfunction, Userfunctionc};
use super::exports as abi;
use super::failure::{Failure, Result};
use super::handles::Table;
use super::state::{made, mpi};
use core::ffi::{c_int, c_void};
use refrain::collective::{Element, Number, Operator, Reduction};

/// A function of the program.
#[derive(Clone, Copy, Debug)]
pub enum Function {
    Int(Userfunction),
    Long(Userfunctionc),
}

/// An operator of the program.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    pub function: Function,
    pub commutes: bool,
}

/// The operators of the program.
pub struct Operators(Table<Own>);

impl Operators {
    pub const fn new() -> Self {
        Self(Table::new())
    }

    pub fn add(&mut self, own: Own) -> Result<Op> {
        Ok(Op(made(self.0.add(own), "operators")?))
    }

    pub fn remove(&mut self, op: Op) -> Result<Own> {
        self.0.remove(op.0).ok_or_else(|| unknown(op))
    }

    pub fn get(&self, op: Op) -> Result<Own> {
        self.0.get(op.0).copied().ok_or_else(|| unknown(op))
    }
}

#[cold]
fn unknown(op: Op) -> Failure {
    Failure::new(
        abi::ERR_OP,
        match op {
            abi::OP_NULL => "the operator is MPI_OP_NULL".to_owned(),
            abi::REPLACE | abi::NO_OP => {
                "MPI_REPLACE and MPI_NO_OP are for one-sided operations only".to_owned()
            }
            Op(handle) => format!("operator {handle} does not exist: it was freed, or never made"),
        },
    )
}

/// A predefined operator.
pub fn predefined(op: Op) -> Option<Operator> {
    Some(match op {
        abi::SUM => Operator::Sum,
        abi::MIN => Operator::Min,
        abi::MAX => Operator::Max,
        abi::PROD => Operator::Product,
        abi::BAND => Operator::BitAnd,
        abi::BOR => Operator::BitOr,
        abi::BXOR => Operator::BitXor,
        abi::LAND => Operator::LogicalAnd,
        abi::LOR => Operator::LogicalOr,
        abi::LXOR => Operator::LogicalXor,
        abi::MINLOC => Operator::MinLoc,
        abi::MAXLOC => Operator::MaxLoc,
        _ => return None,
    })
}

/// What a reduction combines, and where the elements lie.
#[derive(Clone, Debug)]
pub struct Combination {
    pub reduction: Reduction,
    /// Distance from an address of the program to its first element.
    pub offset_bytes: isize,
}

/// The combination of elements of a type.
pub fn combination(op: Op, datatype: Datatype) -> Result<Combination> {
    let types = mpi().types.borrow();
    let of = types.committed(datatype)?;
    if let Some(operator) = predefined(op) {
        // Other libraries combine characters as numbers, and programs rely on it.
        let character = (datatype == abi::CHAR).then_some(Element::Number(Number::I8));
        let element = of.element().or(character).ok_or_else(|| {
            Failure::new(
                abi::ERR_OP,
                "a predefined operator is for predefined types: this type needs an operator of the program",
            )
        })?;
        let reduction = Reduction::new(operator, element);
        let reduction = reduction.map_err(|why| Failure::new(abi::ERR_OP, why))?;
        return Ok(Combination {
            reduction,
            offset_bytes: 0,
        });
    }
    let own = mpi().operators.borrow().get(op)?;
    let (extent, lb) = (of.extent(), of.true_lb().min(of.lb()));
    if extent < of.true_extent() || extent <= 0 {
        return Err(Failure::new(
            abi::ERR_TYPE,
            "elements of this type overlap: they cannot be combined",
        ));
    }
    let call = OwnCall {
        function: own.function,
        datatype,
        extent_bytes: extent as usize,
        offset_bytes: lb as isize,
    };
    let combine = move |left: &[u8], right: &mut [u8]| call.combine(left, right);
    Ok(Combination {
        reduction: Reduction::own(extent as usize, own.commutes, combine),
        offset_bytes: lb as isize,
    })
}

/// An operator of the program, for elements of a type.
#[derive(Clone, Copy)]
struct OwnCall {
    function: Function,
    datatype: Datatype,
    extent_bytes: usize,
    offset_bytes: isize,
}

impl OwnCall {
    fn combine(self, left: &[u8], right: &mut [u8]) {
        const MOST: usize = c_int::MAX as usize;
        let most = self.extent_bytes.saturating_mul(MOST);
        for (left, right) in left.chunks(most).zip(right.chunks_mut(most)) {
            let count = right.len() / self.extent_bytes;
            let from = left.as_ptr().wrapping_offset(-self.offset_bytes);
            let to = right.as_mut_ptr().wrapping_offset(-self.offset_bytes);
            let (from, to) = (from.cast_mut().cast::<c_void>(), to.cast());
            let mut datatype = self.datatype;
            // SAFETY: the program has given a function of this type; both lists have this length.
            unsafe {
                match self.function {
                    Function::Int(function) => {
                        function(from, to, &mut (count as c_int), &raw mut datatype);
                    }
                    Function::Long(function) => {
                        function(from, to, &mut (count as i64), &raw mut datatype);
                    }
                }
            }
        }
    }
}
