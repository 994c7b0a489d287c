//! MPI's datatypes (MPI-5.0, chapter 5): what a type is made of, where its bytes are, how it is
//! told apart.
//!
//! Everything here is a function of its arguments: no clock, thread, randomness or I/O. Sizes,
//! counts and displacements are signed 64-bit numbers of MPI's large counts; arithmetic that leaves
//! them is an error.
//!
//! | file | subject |
//! |---|---|
//! | `basic`, `named` | basic types; the predefined types of the ABI |
//! | `shape`, `bounds`, `signature` | type maps in nested form; lower bounds and extents; which basics in which order |
//! | `datatype` | [`Datatype`]: a shape and how the program made it |
//! | `derived`, `array` | the constructors; those of arrays |
//! | `contents` | envelope and contents |
//! | `compile` | shapes as a [`Layout`](refrain_transport::layout::Layout) for the engine |
//! | `elements` | basic elements in a number of bytes |
//! | `external` | the representation "external32" |
//! | `fortran` | types of Fortran by precision, range and size |
//!
//! Must never know: handles, buffers, messages.

#![forbid(unsafe_code)]

mod array;
mod basic;
mod bounds;
mod compile;
mod contents;
mod datatype;
mod derived;
mod elements;
mod error;
mod external;
mod fortran;
mod named;
mod quad;
mod shape;
mod signature;

pub use array::{Dimension, Distribution, Order, Slice};
pub use basic::{Basic, Class};
pub use contents::{Combiner, Contents, Envelope};
pub use datatype::Datatype;
pub use derived::Field;
pub use elements::Elements;
pub use error::TypeError;
pub use fortran::TypeClass;
pub use named::{NAMED, Named};
pub use signature::Signature;
