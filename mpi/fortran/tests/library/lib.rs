//! The library again, built where the tests find it.

#[path = "../../src/lib.rs"]
mod library;

// There the modules are at the root of the crate.
use library::*;
