//! Operators of the program, and reductions without communication (MPI-5.0, sections 6.9.5 to 6.9.7).

#![allow(unsafe_code, reason = "combines elements of the program")]

use super::types::negative;
use crate::abi::{Datatype, Op, Userfunction, Userfunctionc, put};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::operator::{Function, Own, combination, predefined};
use crate::state::mpi;
use core::ffi::{c_int, c_void};
use refrain::collective::Operands;

fn create(function: Option<Function>, commutes: c_int, place: *mut Op) -> Result {
    let function = function.ok_or_else(|| Failure::argument("the function is NULL"))?;
    let own = Own {
        function,
        commutes: commutes != 0,
    };
    put(place, mpi().operators.borrow_mut().add(own)?);
    Ok(())
}

pub fn op_create(function: Option<Userfunction>, commutes: c_int, place: *mut Op) -> Result {
    create(function.map(Function::Int), commutes, place)
}

pub fn op_create_c(function: Option<Userfunctionc>, commutes: c_int, place: *mut Op) -> Result {
    create(function.map(Function::Long), commutes, place)
}

pub fn op_free(place: *mut Op) -> Result {
    // SAFETY: the standard asks the program for a handle.
    let op = unsafe { *place };
    if predefined(op).is_some() {
        return Err(Failure::new(
            abi::ERR_OP,
            "a predefined operator cannot be freed",
        ));
    }
    mpi().operators.borrow_mut().remove(op)?;
    put(place, abi::OP_NULL);
    Ok(())
}

pub fn op_commutative(op: Op, commutes: *mut c_int) -> Result {
    let does = match predefined(op) {
        Some(_) => true,
        None if matches!(op, abi::REPLACE | abi::NO_OP) => false,
        None => mpi().operators.borrow().get(op)?.commutes,
    };
    put(commutes, does.into());
    Ok(())
}

pub fn reduce_local(
    input: *const c_void,
    output: *mut c_void,
    count: i64,
    datatype: Datatype,
    op: Op,
) -> Result {
    let count = usize::try_from(count).map_err(|_| negative(count))?;
    let of = combination(op, datatype)?;
    let bytes = count * of.reduction.element_bytes();
    let (input, output) = (input.cast::<u8>(), output.cast::<u8>());
    if bytes == 0 {
        return Ok(());
    }
    super::described::check_apart(input.cast(), output.cast())?;
    // SAFETY: the standard asks the program for this many elements in both.
    unsafe {
        let left = core::slice::from_raw_parts(input.wrapping_offset(of.offset_bytes), bytes);
        let right = core::slice::from_raw_parts_mut(output.wrapping_offset(of.offset_bytes), bytes);
        of.reduction
            .apply(Operands::IntoRight { left, into: right });
    }
    Ok(())
}
