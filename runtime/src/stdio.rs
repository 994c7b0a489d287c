//! What a process has printed and the C library still holds.

#![allow(unsafe_code, reason = "calls the C library")]

/// Hands on what C code of this process has printed and its library has not
/// written yet.
pub(crate) fn flush_of_c() {
    // SAFETY: no stream is named, so all are flushed; this locks them as any other
    // call of the library does.
    unsafe { libc::fflush(core::ptr::null_mut()) };
}
