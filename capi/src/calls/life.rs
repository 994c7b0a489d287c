//! Joining and leaving a job, and its properties.

#![allow(unsafe_code, reason = "functions for C")]

use super::super::border;
use super::super::failure::{Code, Failure};
use super::super::memory::Out;
use super::super::present::{self, WorldHandle};
use super::super::program::Program;
use super::operate;
use core::ffi::{c_char, c_int};
use refrain::World;
use refrain_border::clocks::{self, Answers};
use refrain_border::{addresses, own_stack, same_memory};

/// The answers to the program's questions for clocks and random bytes. The program's next call
/// returns an error again.
const ANSWERS: Answers = Answers {
    joining: "refrain_init",
    is_idle: || present::idle().is_some(),
    number: |series, fresh| answer(|program| program.answer_number(series, fresh)).unwrap_or(fresh),
    bytes: |fresh| {
        answer(|program| program.answer_bytes(fresh));
    },
};

fn answer<T>(call: impl FnOnce(&mut Program) -> Result<T, refrain::Error>) -> Option<T> {
    let world = present::idle()?;
    border::without_panic(|| present::with(world, |program| Ok(call(program)?))).ok()
}

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
        same_memory::check().map_err(|why| Failure::new(Code::Config, why))?;
        clocks::join();
        addresses::begin_elsewhere();
        place.set(present::begin(|| Ok(Program::new(World::init()?)))?);
        addresses::begin_at_line();
        clocks::attach(ANSWERS);
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
        if !present::has_world() {
            clocks::detach();
        }
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
