//! libfabric's C interface, API 1.17: what its public headers declare.
//!
//! `constants.rs`, `attributes.rs` and `objects.rs` were made by bindgen from
//! the headers and are committed (see `generate`), so that a build needs
//! neither libclang nor the headers. The headers define most calls as inline
//! functions that go through tables of function pointers; `inline.rs` has those
//! that are used here. Only six functions are looked up in the library itself.
//!
//! Newer libraries append fields. So: what the library writes is read from
//! buffers larger than the structure, `fi_info` is allocated by the library
//! only, and the `size` of a table of functions is looked at before an entry
//! of it is called.

#![allow(
    non_camel_case_types,
    reason = "the names are those of libfabric's headers and manual pages"
)]
#![allow(missing_docs, reason = "libfabric's manual pages document them")]

#[rustfmt::skip]
#[allow(dead_code, reason = "generated, as a whole")]
pub mod attributes;
pub mod constants;
pub mod inline;
#[rustfmt::skip]
#[allow(dead_code, reason = "generated, as a whole")]
pub mod objects;
pub mod opaque;
