//! The interface to `librefrain`, which looks these functions up by name, since the two libraries
//! may be of different builds.

#![allow(unsafe_code, reason = "functions that another library calls by name")]

use crate::state::{self, Engine};
use core::ffi::c_int;

/// Version of these functions and of [`Engine`].
const VERSION: c_int = 1;

/// The calling process joins its job: until [`refrain_clocks_attach`], calls come from
/// `librefrain` itself and are passed to the C library.
// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_clocks_join() {
    if let Some(state) = state::known() {
        state.join();
    }
}

/// The calling process has joined its job: from now on `engine` answers calls of this thread.
/// Returns 1; 2 if in addition some earlier answers were not recorded for lack of room and will
/// differ in a later life; 0 if a launcher has not prepared this process as a rank, or `engine`
/// has another version.
///
/// # Safety
/// The functions of `engine` may be called by this thread until
/// [`refrain_clocks_detach`].
// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_clocks_attach(version: c_int, engine: *const Engine) -> c_int {
    let Some(state) = state::known().filter(|_| version == VERSION) else {
        return 0;
    };
    // SAFETY: the caller passes an engine of this version.
    match state.attach(unsafe { *engine }) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    }
}

/// The calling process has left its job: the C library answers its calls.
// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_clocks_detach() {
    if let Some(state) = state::known() {
        state.detach();
    }
}
