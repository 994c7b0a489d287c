//! The functions and types of C below this library, made by `build.rs`.

#![allow(unsafe_code, reason = "declares functions of C")]
#![allow(dead_code, reason = "not each function of C has one of Fortran")]
#![allow(non_snake_case, reason = "the names are MPI's")]

use core::ffi::{c_char, c_int, c_void};

/// Defines handles: numbers that look like pointers.
macro_rules! handles {
    ($($name:ident),*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(pub usize);
    )*};
}

handles!(
    Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win
);

/// `MPI_Status`, which is the same in Fortran.
pub type Status = [c_int; 8];

include!(concat!(env!("OUT_DIR"), "/declarations.rs"));
