//! MPI 5.0 with the standard ABI on Refrain: `libmpi_abi.so.1`. Exported functions and constants are
//! made from the table in `mpi/abi`; each converts its arguments and calls a body in `calls`.
//!
//! Promises: a program that is killed comes back as any program of crate `refrain` does, so all that
//! is decided here follows from calls and their results alone: handles are numbers of tables, and
//! members of a communicator agree by collectives. No panic leaves the library, and it leaves no
//! bytes in the program's memory (`refrain-border`).
//!
//! The program must keep to what the standard asks: pointers are trusted, and threads take turns
//! (`MPI_THREAD_SERIALIZED`).
//!
//! This crate must not know launchers, fabrics and protocols.

// The library of the tests has these modules one level below its root (`tests/library/lib.rs`).
pub(crate) mod abi;
pub(crate) mod attribute;
pub(crate) mod border;
pub(crate) mod calls;
pub(crate) mod communicator;
pub(crate) mod datatype;
pub(crate) mod exports;
pub(crate) mod failure;
pub(crate) mod general;
pub(crate) mod group;
pub(crate) mod handles;
pub(crate) mod info;
pub(crate) mod operator;
pub(crate) mod parts;
pub(crate) mod request;
pub(crate) mod state;
pub(crate) mod topology;
