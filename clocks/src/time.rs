//! Clocks.

#![allow(unsafe_code, reason = "takes the place of functions of the C library")]

use crate::section::Spent;
use crate::state::{self, Number, State};
use core::ffi::{c_int, c_void};
use core::mem;
use libc::{clock_t, clockid_t, time_t, timespec, timeval};

mod next {
    use super::{c_int, c_void, clock_t, clockid_t, time_t, timespec, timeval};

    crate::next::next! {
        clock_gettime(clock: clockid_t, into: *mut timespec) -> c_int, else -1;
        gettimeofday(into: *mut timeval, zone: *mut c_void) -> c_int, else -1;
        time(into: *mut time_t) -> time_t, else -1;
        timespec_get(into: *mut timespec, base: c_int) -> c_int, else 0;
        clock() -> clock_t, else -1;
    }
}

const NS_PER_S: i64 = 1_000_000_000;
/// The only base of `timespec_get` in every C library.
const TIME_UTC: c_int = 1;

fn kind_of(clock: clockid_t) -> Option<Number> {
    Some(match clock {
        libc::CLOCK_REALTIME => Number::RealTime,
        libc::CLOCK_MONOTONIC => Number::Monotonic,
        libc::CLOCK_PROCESS_CPUTIME_ID => Number::ProcessTime,
        libc::CLOCK_THREAD_CPUTIME_ID => Number::ThreadTime,
        libc::CLOCK_MONOTONIC_RAW => Number::MonotonicRaw,
        libc::CLOCK_REALTIME_COARSE => Number::RealTimeCoarse,
        libc::CLOCK_MONOTONIC_COARSE => Number::MonotonicCoarse,
        libc::CLOCK_BOOTTIME => Number::BootTime,
        libc::CLOCK_TAI => Number::AtomicTime,
        // Processor time of other processes, clocks that are devices, alarms.
        _ => return None,
    })
}

/// The time of a clock as the program gets it, in nanoseconds. `None`: the clock cannot be read.
fn told_ns(state: &State, clock: clockid_t, kind: Number) -> Option<i64> {
    state.aside(|| ask_ns(state, clock, kind))?
}

fn ask_ns(state: &State, clock: clockid_t, kind: Number) -> Option<i64> {
    // SAFETY: zero is a value of it.
    let mut now: timespec = unsafe { mem::zeroed() };
    // SAFETY: fills it.
    if unsafe { next::clock_gettime(clock, &mut now) } != 0 {
        return None;
    }
    let fresh_ns = now.tv_sec.wrapping_mul(NS_PER_S).wrapping_add(now.tv_nsec);
    let spent = match kind {
        Number::ProcessTime => Spent::Process,
        Number::ThreadTime => Spent::Thread,
        _ => return Some(state.number(kind, fresh_ns)),
    };
    let told_ns = state.number(kind, fresh_ns.saturating_add(state.before_ns(spent)));
    state.note_spent_ns(spent, told_ns);
    Some(told_ns)
}

fn utc_ns(state: &State) -> Option<i64> {
    told_ns(state, libc::CLOCK_REALTIME, Number::RealTime)
}

fn split(ns: i64) -> timespec {
    timespec {
        tv_sec: ns.div_euclid(NS_PER_S),
        tv_nsec: ns.rem_euclid(NS_PER_S),
    }
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, into: *mut timespec) -> c_int {
    if let Some(kind) = kind_of(clock)
        && !into.is_null()
        && let Some(state) = state::asked()
        && let Some(ns) = told_ns(state, clock, kind)
    {
        // SAFETY: the caller's, for that.
        unsafe { into.write(split(ns)) };
        return 0;
    }
    // SAFETY: as the caller promises.
    unsafe { next::clock_gettime(clock, into) }
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(into: *mut timeval, zone: *mut c_void) -> c_int {
    // With a time zone, which is obsolete, the C library fills in both.
    if zone.is_null()
        && !into.is_null()
        && let Some(state) = state::asked()
        && let Some(ns) = utc_ns(state)
    {
        let now = split(ns);
        // SAFETY: the caller's, for that.
        unsafe {
            into.write(timeval {
                tv_sec: now.tv_sec,
                tv_usec: now.tv_nsec / 1000,
            });
        }
        return 0;
    }
    // SAFETY: as the caller promises.
    unsafe { next::gettimeofday(into, zone) }
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn time(into: *mut time_t) -> time_t {
    if let Some(state) = state::asked()
        && let Some(ns) = utc_ns(state)
    {
        let now = ns.div_euclid(NS_PER_S);
        if !into.is_null() {
            // SAFETY: the caller's, for that.
            unsafe { into.write(now) };
        }
        return now;
    }
    // SAFETY: as the caller promises.
    unsafe { next::time(into) }
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn timespec_get(into: *mut timespec, base: c_int) -> c_int {
    if base == TIME_UTC
        && !into.is_null()
        && let Some(state) = state::asked()
        && let Some(ns) = utc_ns(state)
    {
        // SAFETY: the caller's, for that.
        unsafe { into.write(split(ns)) };
        return base;
    }
    // SAFETY: as the caller promises.
    unsafe { next::timespec_get(into, base) }
}

// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
extern "C" fn clock() -> clock_t {
    const NS_PER_CLOCK: i64 = NS_PER_S / 1_000_000;
    if let Some(state) = state::asked()
        && let Some(ns) = told_ns(state, libc::CLOCK_PROCESS_CPUTIME_ID, Number::ProcessTime)
    {
        return ns / NS_PER_CLOCK;
    }
    // SAFETY: asks for a number.
    unsafe { next::clock() }
}
