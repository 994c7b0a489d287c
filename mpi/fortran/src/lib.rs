//! MPI for Fortran over the standard ABI: `libmpifort_abi.so.1`. What programs call is made from the
//! table in `mpi/abi`: functions with all arguments by address, under the names that compilers give
//! them, and functions for `mpi_f08` whose buffers are C's descriptors. Each converts its arguments
//! and calls the function of C with the same prefix, so that tools for C see programs in Fortran.
//!
//! Promises: it needs no Fortran compiler, nothing of the C library below it but the ABI, and no
//! memory of the heap in usual calls. It keeps no state that differs between the lives of a rank.
//!
//! This crate must not know how the C library works.

// The library of the tests has these modules one level below its root (`tests/library/lib.rs`).
pub(crate) mod address;
pub(crate) mod attributes;
pub(crate) mod c;
pub(crate) mod descriptor;
pub(crate) mod exports;
pub(crate) mod handle;
pub(crate) mod kept;
pub(crate) mod list;
pub(crate) mod logical;
pub(crate) mod own;
pub(crate) mod predefined;
pub(crate) mod removed;
pub(crate) mod section;
pub(crate) mod special;
pub(crate) mod text;
