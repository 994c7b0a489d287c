//! Native libraries that are looked for at run time: their absence is a line
//! in `refrain info`, never a program that does not start.

#![allow(
    unsafe_code,
    reason = "loading a library runs its initialisers, and the type of a symbol cannot be checked"
)]

use libloading::Library;

/// The version of the installed libfabric (major, minor).
///
/// # Errors
/// Why it cannot be loaded, in the loader's words.
pub fn libfabric_version() -> Result<(u32, u32), String> {
    // SAFETY: libfabric's initialisers only prepare its own state.
    let library = unsafe { Library::new("libfabric.so.1") }.map_err(short)?;
    // SAFETY: `uint32_t fi_version(void)` is part of every libfabric's ABI
    // since FABRIC_1.0, and the library stays loaded during the call.
    let version = unsafe {
        library
            .get::<unsafe extern "C" fn() -> u32>(b"fi_version\0")
            .map_err(short)?()
    };
    Ok((version >> 16, version & 0xffff))
}

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
