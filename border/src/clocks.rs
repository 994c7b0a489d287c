//! The interface to `librefrain_clocks.so`, if that library is preloaded: the engine records clocks
//! and random bytes of the program, and returns the recorded ones in a replay. REC-4

#![allow(
    unsafe_code,
    reason = "calls functions of another library, found by name"
)]

use super::own_stack;
use core::ffi::{CStr, c_int, c_void};
use core::mem;
use core::slice;
use std::sync::OnceLock;

/// The library's part.
pub struct Answers {
    /// Name of the function that joins the job, for messages.
    pub joining: &'static str,
    /// This thread has joined a job, and no call is in progress.
    pub is_idle: fn() -> bool,
    /// The number to return to the program, given a fresh one of a series. Must not panic.
    pub number: fn(series: u8, fresh: i64) -> i64,
    /// Replaces fresh random bytes by those to return. Must not panic.
    pub bytes: fn(fresh: &mut [u8]),
}

static ANSWERS: OnceLock<Answers> = OnceLock::new();

/// Version of the functions and of [`Engine`], as in `clocks/src/attach.rs`.
const VERSION: c_int = 1;

/// The functions that the preloaded library calls.
#[repr(C)]
struct Engine {
    is_asked_by_program: extern "C" fn() -> c_int,
    aside: unsafe extern "C" fn(body: extern "C" fn(*mut c_void), call: *mut c_void),
    number: extern "C" fn(series: u8, fresh: i64) -> i64,
    bytes: unsafe extern "C" fn(fresh: *mut u8, bytes: usize),
}

static ENGINE: Engine = Engine {
    is_asked_by_program,
    aside,
    number,
    bytes,
};

fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Called when the program begins to join its job: calls that this library makes are not recorded.
pub fn join() {
    if let Some(join) = find(c"refrain_clocks_join") {
        // SAFETY: the function of that name has this type in every version.
        unsafe { mem::transmute::<*mut c_void, extern "C" fn()>(join)() };
    }
}

/// Called when the program has joined: from now on calls of its thread are recorded.
pub fn attach(answers: Answers) {
    let joining = answers.joining;
    // A second world in the life of a process has the same functions.
    let _ = ANSWERS.set(answers);
    type Attach = unsafe extern "C" fn(version: c_int, engine: *const Engine) -> c_int;
    let Some(attach) = find(c"refrain_clocks_attach") else {
        return;
    };
    // SAFETY: the function of that name has this type in every version, and refuses
    // other versions of the engine.
    let attached = unsafe { mem::transmute::<*mut c_void, Attach>(attach)(VERSION, &ENGINE) };
    if attached == 2 {
        eprintln!(
            "refrain: before {joining} the program got more times or random bytes than can be recorded (60 KiB): in a later life of this rank the rest of them differs. Get them after {joining}, or see docs/design/recording-clocks.md"
        );
    }
}

/// Called when the program has left its job: ends the recording.
pub fn detach() {
    if let Some(detach) = find(c"refrain_clocks_detach") {
        // SAFETY: the function of that name has this type in every version.
        unsafe { mem::transmute::<*mut c_void, extern "C" fn()>(detach)() };
    }
}

extern "C" fn is_asked_by_program() -> c_int {
    // A call that has given the world back may still free memory, and the heap then reads the time.
    let is_idle = ANSWERS.get().is_some_and(|answers| (answers.is_idle)());
    (is_idle && !own_stack::is_call_under_way()).into()
}

/// Runs `body` on the stack of this library, since the bytes that it leaves there differ from life
/// to life.
// SAFETY: the other library passes a function and its argument.
unsafe extern "C" fn aside(body: extern "C" fn(*mut c_void), call: *mut c_void) {
    own_stack::run(|| {
        body(call);
        0
    });
}

extern "C" fn number(series: u8, fresh: i64) -> i64 {
    match ANSWERS.get() {
        Some(answers) => (answers.number)(series, fresh),
        None => fresh,
    }
}

// SAFETY: the preloaded library lends `bytes` bytes for this call.
unsafe extern "C" fn bytes(fresh: *mut u8, bytes: usize) {
    // SAFETY: as above.
    let fresh = unsafe { slice::from_raw_parts_mut(fresh, bytes) };
    if let Some(answers) = ANSWERS.get() {
        (answers.bytes)(fresh);
    }
}
