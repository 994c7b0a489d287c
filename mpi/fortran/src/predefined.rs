//! The functions for attributes that MPI has. Programs pass them to functions that create keys, and
//! may call them.

#![allow(unsafe_code, reason = "writes to the program's places")]

use super::logical;
use core::ffi::c_int;

macro_rules! functions {
    ($($of:ty: $copy:ident $null:ident $delete:ident;)*) => {$(
        /// Copies an attribute.
        ///
        /// # Safety
        /// All places are there.
        pub unsafe extern "C" fn $copy(
            _: *mut c_int, _: *mut c_int, _: *mut $of, from: *mut $of, to: *mut $of,
            flag: *mut c_int, ierror: *mut c_int,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                to.write(from.read());
                flag.write(logical::value(1));
                ierror.write(0);
            }
        }

        /// Copies nothing.
        ///
        /// # Safety
        /// All places are there.
        pub unsafe extern "C" fn $null(
            _: *mut c_int, _: *mut c_int, _: *mut $of, _: *mut $of, _: *mut $of,
            flag: *mut c_int, ierror: *mut c_int,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                flag.write(logical::value(0));
                ierror.write(0);
            }
        }

        /// Does nothing.
        ///
        /// # Safety
        /// All places are there.
        pub unsafe extern "C" fn $delete(
            _: *mut c_int, _: *mut c_int, _: *mut $of, _: *mut $of, ierror: *mut c_int,
        ) {
            // SAFETY: the caller's promise.
            unsafe { ierror.write(0) }
        }
    )*};
}

functions!(
    i64: comm_dup_fn comm_null_copy_fn comm_null_delete_fn;
    i64: type_dup_fn type_null_copy_fn type_null_delete_fn;
    i64: win_dup_fn win_null_copy_fn win_null_delete_fn;
    c_int: dup_fn null_copy_fn null_delete_fn;
);

/// Stands for no conversion; it is not called.
pub extern "C" fn conversion_fn_null() {}

/// As above, with large counts.
pub extern "C" fn conversion_fn_null_c() {}
