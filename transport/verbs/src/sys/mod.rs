//! The C interface of libibverbs: what its public headers declare.
//!
//! `constants.rs` and `types.rs` were made by bindgen from the headers of
//! rdma-core 44 and are committed (see `generate`), so that a build needs
//! neither libclang nor the headers. The headers define the calls of the data
//! path as inline functions that go through the table of functions in a device's
//! context; `inline.rs` has those that are used here. All others are looked up in
//! the library, each in the version that has these structures.
//!
//! These structures have not changed since the version `IBVERBS_1.1` of the
//! interface; newer libraries append fields only to what they allocate
//! themselves. `ibv_port_attr` is the exception: its writer in version 1.1 knows
//! it up to `flags` and leaves the rest alone.

#![allow(
    non_camel_case_types,
    reason = "the names are those of libibverbs' headers and manual pages"
)]
#![allow(missing_docs, reason = "libibverbs' manual pages document them")]

#[allow(dead_code, reason = "generated, as a whole")]
pub mod constants;
pub mod inline;
pub mod opaque;
#[rustfmt::skip]
#[allow(dead_code, reason = "generated, as a whole")]
pub mod types;
