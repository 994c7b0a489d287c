//! The library once more, built where the tests find it.

#[path = "../../src/lib.rs"]
mod library;
