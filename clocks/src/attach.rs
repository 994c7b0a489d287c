//! The joint with `librefrain`, which looks these functions up by name, since the two
//! may be of different builds.

#![allow(unsafe_code, reason = "functions that another library calls by name")]

use crate::state::{self, Engine};
use core::ffi::c_int;

/// Of these functions and of [`Engine`].
const VERSION: c_int = 1;

/// The calling process joins its job: until [`refrain_clocks_attach`] questions are
/// the library's own.
// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_clocks_join() {
    if let Some(state) = state::known() {
        state.join();
    }
}

/// It has joined: `engine` answers this thread. 1: it does, from now on; 2: as well,
/// but some answers of before had no room and will be others in a later life; 0: this
/// process has nothing that is kept for it, or `engine` is of another version.
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
    // SAFETY: of this version it is one.
    match state.attach(unsafe { *engine }) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    }
}

/// It has left its job: questions are answered by the machine.
// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_clocks_detach() {
    if let Some(state) = state::known() {
        state.detach();
    }
}
