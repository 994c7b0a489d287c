//! Output that the process has printed and libraries still hold.

#![allow(unsafe_code, reason = "calls the C library")]

use std::io::Write as _;

/// Writes the output that Rust and C code of this process have printed.
pub(crate) fn flush() {
    // An error means that nothing reads the output.
    let _ = std::io::stdout().flush();
    // SAFETY: no stream is named, so all are flushed; this locks them as any other
    // call of the library does.
    unsafe { libc::fflush(core::ptr::null_mut()) };
}
