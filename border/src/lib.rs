//! The border between a program in C and a library in Rust that is loaded into it.
//!
//! Promises: the library leaves no bytes in memory that the program has never written, since they
//! would differ in the program's next life: it has a heap (`heap`, the allocator of everything that
//! is linked with this crate), stacks ([`own_stack`]) and a part of the address space
//! ([`addresses`]) of its own, unless [`same_memory`] says otherwise. Clocks and random bytes of the
//! program are recorded ([`clocks`]). Tasks of other launchers become ranks ([`direct_start`]). No panic crosses the border ([`catch`]).
//!
//! This crate must not know what the library does.

pub mod addresses;
pub mod clocks;
pub mod direct_start;
mod heap;
pub mod own_stack;
pub mod same_memory;
#[doc(hidden)]
pub mod thread;

use core::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body`; a panic becomes a text. A caller that lends state to `body` must handle the state
/// that a panic leaves.
///
/// # Errors
/// The text of the panic.
pub fn catch<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let words = words_of(payload.as_ref());
        format!("a defect of the library: {words}")
    })
}

fn words_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
}
