//! The process's id. In a later life the program gets the id of the first life. Functions
//! that take a process id translate it back to the id of this process.

#![allow(unsafe_code, reason = "takes the place of functions of the C library")]

use crate::state;
use core::ffi::{c_int, c_uint, c_ulong};
use libc::{cpu_set_t, iovec, pid_t, rlimit, sched_param, sigval};

mod next {
    use super::{c_int, c_uint, c_ulong, cpu_set_t, iovec, pid_t, rlimit, sched_param, sigval};

    crate::next::next! {
        gettid() -> pid_t, else 0;
        kill(process: pid_t, signal: c_int) -> c_int, else -1;
        tgkill(process: pid_t, thread: pid_t, signal: c_int) -> c_int, else -1;
        sigqueue(process: pid_t, signal: c_int, value: sigval) -> c_int, else -1;
        getpgid(process: pid_t) -> pid_t, else -1;
        setpgid(process: pid_t, group: pid_t) -> c_int, else -1;
        getsid(process: pid_t) -> pid_t, else -1;
        getpriority(which: c_uint, who: c_uint) -> c_int, else -1;
        setpriority(which: c_uint, who: c_uint, priority: c_int) -> c_int, else -1;
        prlimit(process: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int, else -1;
        prlimit64(process: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int, else -1;
        sched_getaffinity(process: pid_t, bytes: usize, into: *mut cpu_set_t) -> c_int, else -1;
        sched_setaffinity(process: pid_t, bytes: usize, cores: *const cpu_set_t) -> c_int, else -1;
        sched_getparam(process: pid_t, into: *mut sched_param) -> c_int, else -1;
        sched_setparam(process: pid_t, param: *const sched_param) -> c_int, else -1;
        sched_getscheduler(process: pid_t) -> c_int, else -1;
        sched_setscheduler(process: pid_t, policy: c_int, param: *const sched_param) -> c_int, else -1;
        process_vm_readv(process: pid_t, here: *const iovec, heres: c_ulong, there: *const iovec, theres: c_ulong, flags: c_ulong) -> isize, else -1;
        process_vm_writev(process: pid_t, here: *const iovec, heres: c_ulong, there: *const iovec, theres: c_ulong, flags: c_ulong) -> isize, else -1;
    }
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn getpid() -> pid_t {
    let first = state::asked().and_then(state::State::first_process);
    first.unwrap_or_else(state::own_process)
}

/// The main thread has the id of the process: programs compare the two.
// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn gettid() -> pid_t {
    // SAFETY: asks for a number.
    let thread = unsafe { next::gettid() };
    let first = state::asked().and_then(state::State::first_process);
    first
        .filter(|_| thread == state::own_process())
        .unwrap_or(thread)
}

/// Translates a process id that the program passes to the real id. For some functions `-ID` is a
/// group.
fn meant(id: pid_t) -> pid_t {
    match state::asked().and_then(state::State::first_process) {
        Some(first) if id == first => state::own_process(),
        Some(first) if id == first.wrapping_neg() => state::own_process().wrapping_neg(),
        _ => id,
    }
}

/// Defines functions whose first argument is a process id.
macro_rules! of_process {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        // SAFETY: as the C library's function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(process: pid_t $(, $argument: $type)*) -> $result {
            // SAFETY: as the caller promises.
            unsafe { next::$name(meant(process) $(, $argument)*) }
        }
    )*};
}

of_process! {
    kill(signal: c_int) -> c_int;
    sigqueue(signal: c_int, value: sigval) -> c_int;
    getpgid() -> pid_t;
    getsid() -> pid_t;
    prlimit(resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int;
    prlimit64(resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int;
    sched_getaffinity(bytes: usize, into: *mut cpu_set_t) -> c_int;
    sched_setaffinity(bytes: usize, cores: *const cpu_set_t) -> c_int;
    sched_getparam(into: *mut sched_param) -> c_int;
    sched_setparam(param: *const sched_param) -> c_int;
    sched_getscheduler() -> c_int;
    sched_setscheduler(policy: c_int, param: *const sched_param) -> c_int;
    process_vm_readv(here: *const iovec, heres: c_ulong, there: *const iovec, theres: c_ulong, flags: c_ulong) -> isize;
    process_vm_writev(here: *const iovec, heres: c_ulong, there: *const iovec, theres: c_ulong, flags: c_ulong) -> isize;
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn tgkill(process: pid_t, thread: pid_t, signal: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { next::tgkill(meant(process), meant(thread), signal) }
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn setpgid(process: pid_t, group: pid_t) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { next::setpgid(meant(process), meant(group)) }
}

/// As `meant`, for `getpriority` and `setpriority`: `who` is a process, a group, or a user.
fn meant_by(which: c_uint, who: c_uint) -> c_uint {
    match which {
        libc::PRIO_PROCESS | libc::PRIO_PGRP => meant(who.cast_signed()).cast_unsigned(),
        _ => who,
    }
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn getpriority(which: c_uint, who: c_uint) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { next::getpriority(which, meant_by(which, who)) }
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn setpriority(which: c_uint, who: c_uint, priority: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { next::setpriority(which, meant_by(which, who), priority) }
}
