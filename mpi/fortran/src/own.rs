//! Functions that C does not have.

#![allow(unsafe_code, reason = "reads and writes values of the program")]

use super::c::Status;
use super::descriptor::Descriptor;
use core::ffi::{c_int, c_void};

/// Whether two handles are one.
///
/// # Safety
/// The places can be read.
pub unsafe extern "C" fn are_equal(one: *const c_int, other: *const c_int) -> c_int {
    // SAFETY: the caller's promise.
    super::logical::value(unsafe { *one == *other }.into())
}

/// Whether two handles are different.
///
/// # Safety
/// The places can be read.
pub unsafe extern "C" fn differ(one: *const c_int, other: *const c_int) -> c_int {
    // SAFETY: the caller's promise.
    super::logical::value(unsafe { *one != *other }.into())
}

/// MPI_Status_f2f08 and MPI_Status_f082f: both forms are the same numbers.
///
/// # Safety
/// The places are there; `ierror` may be null.
pub unsafe extern "C" fn copy_status(from: *const Status, to: *mut Status, ierror: *mut c_int) {
    // SAFETY: the caller's promise.
    unsafe {
        to.write(from.read());
        if !ierror.is_null() {
            ierror.write(0);
        }
    }
}

/// MPI_Sizeof: the bytes of an element.
///
/// # Safety
/// The places are there; `ierror` may be null.
pub unsafe extern "C" fn size_of_element(
    of: *const Descriptor,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the caller's promise.
    unsafe {
        size.write((*of).element as c_int);
        if !ierror.is_null() {
            ierror.write(0);
        }
    }
}

/// MPI_F_sync_reg: that it might change the buffer is all that it is for.
pub extern "C" fn touch(_: *mut c_void) {}
