//! Joining and leaving a job, and its properties.

#![allow(unsafe_code, reason = "functions for C")]

use super::super::addresses;
use super::super::border;
use super::super::clocks;
use super::super::failure::Code;
use super::super::memory::Out;
use super::super::own_stack;
use super::super::present::{self, WorldHandle};
use super::super::program::Program;
use super::super::same_memory;
use super::operate;
use core::ffi::{c_char, c_int};
use refrain::World;

/// `REFRAIN_API_VERSION`
const API_VERSION: c_int = 2;

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_api_version() -> c_int {
    API_VERSION
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_last_error() -> *const c_char {
    border::last_error()
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_error_name(code: c_int) -> *const c_char {
    Code::name_of(code).as_ptr()
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_init(world: *mut *mut WorldHandle) -> c_int {
    let code = border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut place = unsafe { Out::required("world", world) }?;
        place.set(core::ptr::null_mut());
        same_memory::check()?;
        clocks::join();
        addresses::begin_elsewhere();
        place.set(present::begin(|| Ok(Program::new(World::init()?)))?);
        addresses::begin_at_line();
        clocks::attach();
        Ok(())
    });
    own_stack::overwrite_below();
    code
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_finalize(world: *mut WorldHandle) -> c_int {
    border::call(|| {
        let ended = present::end(world, Program::check_finalize, Program::finalize);
        clocks::detach();
        ended
    })
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_rank(world: *const WorldHandle) -> c_int {
    about(world, |world| world.rank().0.into()) as c_int
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_size(world: *const WorldHandle) -> c_int {
    about(world, |world| world.size().into()) as c_int
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_incarnation(world: *const WorldHandle) -> i64 {
    about(world, |world| world.incarnation().0.into())
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_recovers(world: *const WorldHandle) -> c_int {
    about(world, |world| world.recovers().into()) as c_int
}

fn about(world: *const WorldHandle, ask: impl FnOnce(&World) -> i64) -> i64 {
    border::number(|| present::with(world, |program| Ok(ask(program.world()))))
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_barrier(world: *mut WorldHandle) -> c_int {
    border::call(|| operate(world, |world| world.barrier()))
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_wtime(world: *mut WorldHandle, seconds: *mut f64) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut place = unsafe { Out::required("seconds", seconds) }?;
        place.set(present::with(world, Program::time)?.as_secs_f64());
        Ok(())
    })
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_progress(world: *mut WorldHandle) -> c_int {
    border::call(|| operate(world, |world| world.progress()))
}
