//! The interface for tools (MPI-5.0, chapter 15): there are no variables, events and categories.
//! Functions that would need one return `MPI_T_ERR_NOT_SUPPORTED`.

use crate::abi::put;
use crate::exports as abi;
use crate::failure::Result;
use core::ffi::c_int;

pub fn t_init_thread(required: c_int, provided: *mut c_int) -> Result {
    put(
        provided,
        required.clamp(abi::THREAD_SINGLE, abi::THREAD_SERIALIZED),
    );
    Ok(())
}

pub fn t_finalize() -> Result {
    Ok(())
}

pub fn t_cvar_get_num(number: *mut c_int) -> Result {
    put(number, 0);
    Ok(())
}

pub fn t_pvar_get_num(number: *mut c_int) -> Result {
    put(number, 0);
    Ok(())
}

pub fn t_category_get_num(number: *mut c_int) -> Result {
    put(number, 0);
    Ok(())
}

pub fn t_event_get_num(number: *mut c_int) -> Result {
    put(number, 0);
    Ok(())
}

pub fn t_source_get_num(number: *mut c_int) -> Result {
    put(number, 0);
    Ok(())
}
