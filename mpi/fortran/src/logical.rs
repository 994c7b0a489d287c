//! LOGICAL: the values of the compiler, and what the C library must know of it.

#![allow(unsafe_code, reason = "reads and writes values of the program")]

use super::c;
use super::handle::Handle as _;
use super::list::List;
use core::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

/// `.TRUE.` and `.FALSE.` of gfortran and flang, unless the program tells others.
static TRUE: AtomicI32 = AtomicI32::new(1);
static FALSE: AtomicI32 = AtomicI32::new(0);

/// Bytes of a LOGICAL of the default kind.
const BYTES: c_int = 4;

/// The truth for C.
#[inline]
pub fn is_true(value: c_int) -> c_int {
    (value != FALSE.load(Ordering::Relaxed)).into()
}

/// The value for Fortran.
#[inline]
pub fn value(truth: c_int) -> c_int {
    match truth {
        0 => FALSE.load(Ordering::Relaxed),
        _ => TRUE.load(Ordering::Relaxed),
    }
}

/// The truths of the program's list.
///
/// # Safety
/// The list has that many.
pub unsafe fn list(list: *mut c_int, length: i64) -> List<c_int> {
    // SAFETY: the caller's promise.
    List::made(length, |index| is_true(unsafe { list.add(index).read() }))
}

/// Writes truths to the program's list.
///
/// # Safety
/// The list has room for them.
pub unsafe fn put_list(to: *mut c_int, list: &mut List<c_int>) {
    for (index, truth) in list.elements().iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { to.add(index).write(value(*truth)) }
    }
}

/// Notes the values of the compiler.
pub fn note(is: c_int, is_not: c_int) {
    TRUE.store(is, Ordering::Relaxed);
    FALSE.store(is_not, Ordering::Relaxed);
}

/// Tells the C library the compiler's sizes and values, unless the program has, when it has joined a
/// job: not each library can take them before.
pub fn announce(code: c_int) {
    if code != 0 {
        return;
    }
    super::kept::forget();
    let (mut is, mut is_not, mut is_set) = (0, 0, 0);
    let values = (&raw mut is, &raw mut is_not);
    // SAFETY: all places are variables of this function, of `BYTES` bytes each.
    unsafe {
        let (is_at, is_not_at) = (values.0.cast(), values.1.cast());
        let code = c::PMPI_Abi_get_fortran_booleans(BYTES, is_at, is_not_at, &raw mut is_set);
        if code == 0 && is_set != 0 {
            note(values.0.read(), values.1.read());
        } else {
            values.0.write(value(1));
            values.1.write(value(0));
            c::PMPI_Abi_set_fortran_booleans(BYTES, is_at, is_not_at);
        }
        let mut info = c::Info::NULL;
        let code = c::PMPI_Abi_get_fortran_info(&raw mut info);
        if code == 0 && info == c::Info::NULL && c::PMPI_Info_create(&raw mut info) == 0 {
            for (key, value) in PROPERTIES {
                c::PMPI_Info_set(info, key.as_ptr().cast_mut(), value.as_ptr().cast_mut());
            }
            c::PMPI_Abi_set_fortran_info(info);
        }
        if info != c::Info::NULL {
            c::PMPI_Info_free(&raw mut info);
        }
    }
}

/// Sizes and types of the compilers that are known (MPI-5.0, section 20.5).
const PROPERTIES: [(&core::ffi::CStr, &core::ffi::CStr); 23] = [
    (c"mpi_logical_size", c"4"),
    (c"mpi_integer_size", c"4"),
    (c"mpi_real_size", c"4"),
    (c"mpi_double_precision_size", c"8"),
    (c"mpi_logical1_supported", c"true"),
    (c"mpi_logical2_supported", c"true"),
    (c"mpi_logical4_supported", c"true"),
    (c"mpi_logical8_supported", c"true"),
    (c"mpi_logical16_supported", c"true"),
    (c"mpi_integer1_supported", c"true"),
    (c"mpi_integer2_supported", c"true"),
    (c"mpi_integer4_supported", c"true"),
    (c"mpi_integer8_supported", c"true"),
    (c"mpi_integer16_supported", c"true"),
    (c"mpi_real2_supported", c"false"),
    (c"mpi_real4_supported", c"true"),
    (c"mpi_real8_supported", c"true"),
    (c"mpi_real16_supported", c"true"),
    (c"mpi_complex4_supported", c"false"),
    (c"mpi_complex8_supported", c"true"),
    (c"mpi_complex16_supported", c"true"),
    (c"mpi_complex32_supported", c"true"),
    (c"mpi_double_complex_supported", c"true"),
];
