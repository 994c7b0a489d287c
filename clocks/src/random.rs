//! Random bytes of the system.

#![allow(unsafe_code, reason = "takes the place of functions of the C library")]

use crate::state::{self, Bytes, State};
use core::ffi::{c_int, c_uint, c_void};
use core::slice;

mod next {
    use super::{c_int, c_uint, c_void};

    crate::next::next! {
        getrandom(into: *mut c_void, bytes: usize, flags: c_uint) -> isize, else -1;
        getentropy(into: *mut c_void, bytes: usize) -> c_int, else -1;
        arc4random() -> u32, else super::of_system();
        arc4random_buf(into: *mut c_void, bytes: usize) -> (), else super::fill(into, bytes);
        arc4random_uniform(end: u32) -> u32, else super::below(end);
    }
}

/// Random number of the system. Older C libraries have no `arc4random`, but a program that looks
/// it up by name finds the function of this library.
fn of_system() -> u32 {
    let mut bytes = [0; 4];
    fill(bytes.as_mut_ptr().cast(), bytes.len());
    u32::from_ne_bytes(bytes)
}

fn below(end: u32) -> u32 {
    ((u64::from(of_system()) * u64::from(end)) >> 32) as u32
}

/// As `arc4random_buf` of glibc: ends the process if the system call fails.
fn fill(into: *mut c_void, bytes: usize) {
    // SAFETY: `into` are `bytes` bytes.
    let given = unsafe { all_of(into, bytes, 0) };
    if given != bytes as isize {
        let why = b"refrain: arc4random: the system refuses getrandom\n";
        // SAFETY: the text is that long; what fails after it is not seen.
        unsafe {
            libc::write(libc::STDERR_FILENO, why.as_ptr().cast(), why.len());
            libc::abort();
        }
    }
}

/// Reads all `bytes` random bytes. A signal may interrupt the system call after 256 bytes, in one
/// life but not in the next. Returns less, or -1, if the system call fails.
///
/// # Safety
/// `into` are `bytes` bytes.
unsafe fn all_of(into: *mut c_void, bytes: usize, flags: c_uint) -> isize {
    let mut done = 0;
    loop {
        // SAFETY: `into` are `bytes` bytes.
        let given = unsafe { next::getrandom(into.byte_add(done), bytes - done, flags) };
        match usize::try_from(given) {
            Ok(given) => done += given,
            // SAFETY: each thread has one.
            Err(_) if unsafe { *libc::__errno_location() } == libc::EINTR => {}
            Err(_) if done == 0 => return -1,
            Err(_) => return done as isize,
        }
        if done == bytes {
            return done as isize;
        }
    }
}

/// Records fresh bytes, or in a later life replaces them with those of the first life.
///
/// # Safety
/// `into` are `bytes` bytes, written, and the caller's.
unsafe fn answer(state: &State, into: *mut c_void, bytes: usize) {
    if bytes > 0 {
        // SAFETY: as the caller promises.
        let fresh = unsafe { slice::from_raw_parts_mut(into.cast(), bytes) };
        let _ = state.aside(|| state.bytes(Bytes::Random, fresh));
    }
}

fn answer_number(state: &State, fresh: u32) -> u32 {
    let mut bytes = fresh.to_ne_bytes();
    let _ = state.aside(|| state.bytes(Bytes::Random, &mut bytes));
    u32::from_ne_bytes(bytes)
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(into: *mut c_void, bytes: usize, flags: c_uint) -> isize {
    let Some(state) = state::asked() else {
        // SAFETY: as the caller promises.
        return unsafe { next::getrandom(into, bytes, flags) };
    };
    // SAFETY: as the caller promises.
    let given = unsafe { all_of(into, bytes, flags) };
    if let Ok(given) = usize::try_from(given) {
        // SAFETY: the system has written as many.
        unsafe { answer(state, into, given) };
    }
    given
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn getentropy(into: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: as the caller promises.
    let status = unsafe { next::getentropy(into, bytes) };
    if status == 0
        && let Some(state) = state::asked()
    {
        // SAFETY: all of them are written.
        unsafe { answer(state, into, bytes) };
    }
    status
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn arc4random() -> u32 {
    // SAFETY: asks for a number.
    let fresh = unsafe { next::arc4random() };
    state::asked().map_or(fresh, |state| answer_number(state, fresh))
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn arc4random_buf(into: *mut c_void, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { next::arc4random_buf(into, bytes) };
    if let Some(state) = state::asked() {
        // SAFETY: all of them are written.
        unsafe { answer(state, into, bytes) };
    }
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn arc4random_uniform(end: u32) -> u32 {
    // SAFETY: asks for a number.
    let fresh = unsafe { next::arc4random_uniform(end) };
    state::asked().map_or(fresh, |state| answer_number(state, fresh))
}
