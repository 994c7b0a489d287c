//! The bodies of MPI's functions. The names of files are those of the table `mpi/abi/functions.txt`,
//! and the names of functions those of MPI in small letters. Counts are wide in all of them; the
//! exported functions convert.

#![allow(
    clippy::too_many_arguments,
    reason = "the functions have the parameters of MPI's"
)]

pub mod active;
pub mod attributes;
pub mod between;
pub mod buffering;
pub mod collectives;
pub mod communicators;
pub mod derived_types;
pub mod described;
pub mod environment;
pub mod errors;
pub mod generalized;
pub mod groups;
pub mod info;
pub mod neighbours;
pub mod operators;
pub mod packing;
pub mod partitioned;
pub mod point_to_point;
pub mod probing;
pub mod reductions;
pub mod requests;
pub mod sessions;
pub mod statuses;
pub mod tools;
pub mod topologies;
pub mod type_properties;
pub mod types;
