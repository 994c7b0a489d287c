//! What the bindings of libfabric and of libibverbs have in common: how a library
//! is loaded at run time, and why it could not be.
//!
//! A binary that is built on these bindings starts where the libraries are missing,
//! and says so when one is needed. What this crate does not know: what the symbols
//! of a library are, and what they do.

mod load_error;
mod symbols;

pub use load_error::{LoadError, Obstacle};
pub use symbols::{Native, Symbols, text};
