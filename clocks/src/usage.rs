//! Processor time and other resources that the process has used.

#![allow(unsafe_code, reason = "takes the place of functions of the C library")]

use crate::section::Spent;
use crate::state::{self, Bytes, State};
use core::ffi::c_int;
use core::{mem, slice};
use libc::{clock_t, rusage, timeval, tms};

mod next {
    use super::{c_int, clock_t, rusage, tms};

    crate::next::next! {
        getrusage(of: c_int, into: *mut rusage) -> c_int, else -1;
        times(into: *mut tms) -> clock_t, else -1;
    }
}

const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_US: i64 = 1000;
/// `sysconf(_SC_CLK_TCK)` is 100 on Linux, for every kernel configuration.
const NS_PER_TICK: i64 = NS_PER_S / 100;

fn ns_of(time: timeval) -> i64 {
    time.tv_sec
        .wrapping_mul(NS_PER_S)
        .wrapping_add(time.tv_usec.wrapping_mul(NS_PER_US))
}

fn timeval_of(ns: i64) -> timeval {
    timeval {
        tv_sec: ns.div_euclid(NS_PER_S),
        tv_usec: ns.rem_euclid(NS_PER_S) / NS_PER_US,
    }
}

/// Records `fresh` as a whole, or in a later life replaces it with that of the first life.
///
/// # Safety
/// `T` is plain numbers without padding.
unsafe fn answer<T>(state: &State, kind: Bytes, fresh: &mut T) {
    let (start, bytes) = ((&raw mut *fresh).cast::<u8>(), mem::size_of::<T>());
    // SAFETY: all of these bytes are written, and any others are numbers as well.
    state.bytes(kind, unsafe { slice::from_raw_parts_mut(start, bytes) });
}

fn spent_of(whose: c_int) -> Option<[Spent; 2]> {
    match whose {
        libc::RUSAGE_SELF => Some([Spent::UserOfProcess, Spent::SystemOfProcess]),
        libc::RUSAGE_THREAD => Some([Spent::UserOfThread, Spent::SystemOfThread]),
        // The processor time of children does not continue from life to life.
        _ => None,
    }
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrusage(whose: c_int, into: *mut rusage) -> c_int {
    if !into.is_null()
        && let Some(state) = state::asked()
        && let Some(status) = state.aside(|| {
            // SAFETY: as the caller promises.
            unsafe { ask_usage(state, whose, into) }
        })
    {
        return status;
    }
    // SAFETY: as the caller promises.
    unsafe { next::getrusage(whose, into) }
}

// SAFETY: as of getrusage: `into` is room for what it answers.
unsafe fn ask_usage(state: &State, whose: c_int, into: *mut rusage) -> c_int {
    // SAFETY: as the caller promises.
    let status = unsafe { next::getrusage(whose, into) };
    if status != 0 {
        return status;
    }
    // SAFETY: the caller's, for that, and filled.
    let told = unsafe { &mut *into };
    let spent = spent_of(whose);
    if let Some([user, system]) = spent {
        told.ru_utime = timeval_of(ns_of(told.ru_utime).saturating_add(state.before_ns(user)));
        told.ru_stime = timeval_of(ns_of(told.ru_stime).saturating_add(state.before_ns(system)));
    }
    // SAFETY: 18 numbers of 8 bytes.
    unsafe { answer(state, Bytes::Usage, told) };
    if let Some([user, system]) = spent {
        state.note_spent_ns(user, ns_of(told.ru_utime));
        state.note_spent_ns(system, ns_of(told.ru_stime));
    }
    status
}

/// The results of `times`.
#[repr(C)]
struct Times {
    of_process: tms,
    since: clock_t,
}
const _: () = assert!(mem::size_of::<Times>() == 40);

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn times(into: *mut tms) -> clock_t {
    let told = state::asked().and_then(|state| state.aside(|| ask_times(state)));
    let Some(told) = told else {
        // SAFETY: as the caller promises.
        return unsafe { next::times(into) };
    };
    if !into.is_null() {
        // SAFETY: the caller's, for that.
        unsafe { into.write(told.of_process) };
    }
    told.since
}

fn ask_times(state: &State) -> Times {
    // SAFETY: zero is a value of it.
    let mut told: Times = unsafe { mem::zeroed() };
    // SAFETY: fills it.
    told.since = unsafe { next::times(&mut told.of_process) };
    let [user, system] = [Spent::UserOfProcess, Spent::SystemOfProcess];
    let of = &mut told.of_process;
    of.tms_utime = of
        .tms_utime
        .saturating_add(state.before_ns(user) / NS_PER_TICK);
    of.tms_stime = of
        .tms_stime
        .saturating_add(state.before_ns(system) / NS_PER_TICK);
    // SAFETY: five numbers of 8 bytes.
    unsafe { answer(state, Bytes::Times, &mut told) };
    let of = &told.of_process;
    state.note_spent_ns(user, of.tms_utime.saturating_mul(NS_PER_TICK));
    state.note_spent_ns(system, of.tms_stime.saturating_mul(NS_PER_TICK));
    told
}
