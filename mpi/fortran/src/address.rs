//! Constants that are known by their addresses: variables in common blocks, which a program and this
//! library share by name.

#![allow(unsafe_code, reason = "defines the common blocks in assembler")]

use core::ffi::{c_char, c_int, c_void};
use core::ptr::{null_mut, without_provenance_mut};

/// Defines a common block under the names that compilers give it, and what tells whether an address
/// lies in it. A program has a block of its own, which then is the library's too: its place is found
/// by name, at the address that the dynamic linker knows.
macro_rules! block {
    ($inside:ident, $bytes:literal, $plain:ident, $one:ident, $upper:ident) => {
        core::arch::global_asm!(
            concat!(".pushsection .bss.", stringify!($plain), ",\"aw\",@nobits"),
            ".balign 16",
            concat!(".globl ", stringify!($plain)),
            concat!(".globl ", stringify!($one)),
            concat!(".globl ", stringify!($upper)),
            concat!(".type ", stringify!($plain), ",@object"),
            concat!(".type ", stringify!($one), ",@object"),
            concat!(".type ", stringify!($upper), ",@object"),
            concat!(".size ", stringify!($plain), ", ", $bytes),
            concat!(".size ", stringify!($one), ", ", $bytes),
            concat!(".size ", stringify!($upper), ", ", $bytes),
            concat!(stringify!($plain), ":"),
            concat!(stringify!($one), ":"),
            concat!(stringify!($upper), ":"),
            concat!(".zero ", $bytes),
            ".popsection",
        );
        // SAFETY: they are defined above.
        unsafe extern "C" {
            static $plain: u8;
            static $one: u8;
            #[allow(non_upper_case_globals, reason = "it has the name of the block")]
            static $upper: u8;
        }

        /// The offset of an address in the block.
        #[inline(always)]
        fn $inside(address: usize) -> Option<usize> {
            let offset = |place: *const u8| address.wrapping_sub(place.addr());
            match offset(&raw const $one) {
                offset @ 0..$bytes => return Some(offset),
                _ => {}
            }
            match offset(&raw const $plain) {
                offset @ 0..$bytes => return Some(offset),
                _ => {}
            }
            match offset(&raw const $upper) {
                offset @ 0..$bytes => Some(offset),
                _ => None,
            }
        }
    };
}

block!(in_buffers, 12, mpifbuf, mpifbuf_, MPIFBUF);
block!(in_statuses, 64, mpifsts, mpifsts_, MPIFSTS);
block!(in_lists, 12, mpiflst, mpiflst_, MPIFLST);
block!(in_characters, 2, mpifchr, mpifchr_, MPIFCHR);

/// The address of a choice buffer for C.
#[inline]
pub fn buffer(address: *mut c_void) -> *mut c_void {
    match in_buffers(address.addr()) {
        None => address,
        // MPI_BOTTOM, MPI_IN_PLACE, MPI_BUFFER_AUTOMATIC
        Some(offset) => without_provenance_mut(offset / 4),
    }
}

/// Gives Fortran the address of MPI_BUFFER_AUTOMATIC, where C has given its own.
///
/// # Safety
/// C has written an address.
pub unsafe fn put_detached(place: *mut c_void) {
    const AUTOMATIC: usize = 2;
    let place = place.cast::<*mut c_void>();
    // SAFETY: the caller's promise; the block is larger.
    unsafe {
        if place.read().addr() == AUTOMATIC {
            place.write((&raw const mpifbuf_).add(4 * AUTOMATIC).cast_mut().cast());
        }
    }
}

/// The place of a status, or of several: none for MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE.
#[inline]
pub fn status<T>(address: *mut T) -> *mut T {
    match in_statuses(address.addr()) {
        None => address,
        Some(_) => null_mut(),
    }
}

/// A list of weights or error codes.
#[inline]
pub fn list(address: *mut c_int) -> *mut c_int {
    match in_lists(address.addr()) {
        None => address,
        // MPI_ERRCODES_IGNORE, MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY
        Some(0..4) => null_mut(),
        Some(4..8) => without_provenance_mut(10),
        Some(_) => without_provenance_mut(11),
    }
}

/// Whether a list of arguments is MPI_ARGV_NULL or MPI_ARGVS_NULL.
pub fn has_no_arguments(list: *mut c_char) -> bool {
    in_characters(list.addr()).is_some()
}
