//! The functions that Fortran calls, made by `build.rs`, under the names that compilers give them.

#![allow(
    unsafe_code,
    reason = "functions for Fortran; their symbols are defined in assembler"
)]
#![allow(non_snake_case, reason = "the names are MPI's")]
#![allow(
    unused_mut,
    unused_unsafe,
    clippy::too_many_arguments,
    clippy::unnecessary_cast,
    clippy::missing_safety_doc,
    unsafe_op_in_unsafe_fn,
    reason = "the functions are made from a table"
)]

use super::address;
use super::c;
use super::descriptor::Descriptor;
use super::handle::Handle;
use super::list::{List, handles, kept, put_handles, room_for_handles};
use super::logical;
use super::own;
use super::predefined;
use super::section;
use super::special;
use super::text::{Room, Text};
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

const UNDEFINED: c_int = -32766;

/// Exports a function under several names. Those of `MPI_` are weak, so that a tool may define them.
macro_rules! export {
    ($inner:path, $binding:literal, [$($name:literal),*]) => {
        core::arch::global_asm!(
            concat!(".pushsection .text.", $($name, "."),*, ",\"ax\",@progbits"),
            $(
                concat!($binding, " ", $name),
                concat!(".type ", $name, ",@function"),
                concat!($name, ":"),
            )*
            #[cfg(target_arch = "x86_64")]
            "jmp {inner}",
            #[cfg(target_arch = "aarch64")]
            "b {inner}",
            $(
                concat!(".size ", $name, ", . - ", $name),
            )*
            ".popsection",
            inner = sym $inner,
        );
    };
}

/// Writes a result; `ierror` need not be there in `mpi_f08`.
///
/// # Safety
/// The place is null or can be written.
#[inline]
unsafe fn put(place: *mut c_int, value: c_int) {
    if !place.is_null() {
        // SAFETY: the standard asks it of the program.
        unsafe { place.write(value) }
    }
}

/// The number of an element, the first of which is 1.
fn one_more(index: c_int) -> c_int {
    if index < 0 { index } else { index + 1 }
}

/// As above, for a list.
///
/// # Safety
/// C has written that many.
unsafe fn count_from_one(list: *mut c_int, count: c_int) {
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's promise.
        unsafe { *list.add(index) = one_more(*list.add(index)) }
    }
}

include!(concat!(env!("OUT_DIR"), "/entries.rs"));
