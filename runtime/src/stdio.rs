//! Output that the process has printed and that libraries still buffer.

#![allow(unsafe_code, reason = "calls the C library")]

use std::io::Write as _;

/// Flushes the buffered output of Rust and C code of this process.
pub(crate) fn flush() {
    // An error means that the reader of the output is gone.
    let _ = std::io::stdout().flush();
    // SAFETY: a null pointer flushes all streams; `fflush` locks them as any other call of the C
    // library does.
    unsafe { libc::fflush(core::ptr::null_mut()) };
}
