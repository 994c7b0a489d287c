//! Native libraries that are looked for at run time: their absence is a line
//! in `refrain info`, never a program that does not start.

#![allow(unsafe_code, reason = "loading a library runs its initialisers")]

use libloading::Library;

/// Whether libibverbs is installed.
///
/// # Errors
/// Why it cannot be loaded, in the loader's words.
pub fn has_libibverbs() -> Result<(), String> {
    // SAFETY: libibverbs' initialisers only prepare its own state; drivers are
    // loaded when devices are asked for, which nobody does here.
    unsafe { Library::new("libibverbs.so.1") }
        .map(drop)
        .map_err(short)
}

/// The loader's words without the name that the caller gives anyway.
fn short(error: libloading::Error) -> String {
    let text = error.to_string();
    text.split_once(": ")
        .map_or(text.clone(), |(_, reason)| reason.to_owned())
}
