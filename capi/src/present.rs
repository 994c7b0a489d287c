//! The world of this thread. C holds a number that looks like a pointer. Each call checks that it
//! is the number of this thread's world; on another thread it is an error.

#![allow(unsafe_code, reason = "reads a thread's variable in assembler")]

use super::border::without_panic;
use super::failure::{Code, Failure};
use super::program::Program;
use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

/// `refrain_world` of the header: no object lies at its address.
#[derive(Debug)]
#[repr(C)]
pub struct WorldHandle {
    nothing: [u8; 0],
}

/// The state of this thread's world. It is not dropped when the thread ends: a rank that ends
/// without leaving its job needs no cleanup.
pub enum State {
    Absent,
    Idle(usize, ManuallyDrop<Box<Program>>),
    /// A call is in progress.
    Busy,
    /// A call has panicked.
    Broken(usize),
}

/// The number of the next world, from 1; numbers are not reused.
static NEXT: AtomicUsize = AtomicUsize::new(1);

refrain_border::thread_state! {
    fn with_state(&Cell<State>) = Cell::new(State::Absent), "refrain_place_of_world"
}

#[inline]
fn replace(state: State) -> State {
    with_state(|of_thread| of_thread.replace(state))
}

#[inline]
fn set(state: State) {
    with_state(|of_thread| of_thread.set(state));
}

fn look<T>(look: impl FnOnce(&State) -> T) -> T {
    let state = replace(State::Busy);
    let seen = look(&state);
    set(state);
    seen
}

/// Makes the world of this thread.
pub fn begin(make: impl FnOnce() -> Result<Program, Failure>) -> Result<*mut WorldHandle, Failure> {
    refrain::check_process()?;
    match replace(State::Busy) {
        State::Absent => {}
        other => {
            set(other);
            return Err(Failure::new(
                Code::World,
                "this thread has a world already: refrain_finalize ends it",
            ));
        }
    }
    let made = without_panic(make);
    let serial = NEXT.fetch_add(1, Ordering::Relaxed);
    set(match &made {
        Ok(_) => State::Busy,
        Err(_) => State::Absent,
    });
    let program = ManuallyDrop::new(Box::new(made?));
    set(State::Idle(serial, program));
    Ok(ptr::without_provenance_mut(serial))
}

/// Runs a call on the world of this thread.
pub fn with<T>(
    world: *const WorldHandle,
    call: impl FnOnce(&mut Program) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut program = take(world)?;
    let mut has_returned = false;
    let result = without_panic(|| {
        let result = call(&mut program);
        has_returned = true;
        result
    });
    set(match has_returned {
        true => State::Idle(world.addr(), program),
        // The state of the program is unknown, so it is not dropped.
        false => State::Broken(world.addr()),
    });
    result
}

/// Ends the world of this thread, unless `may_end` refuses.
pub fn end(
    world: *const WorldHandle,
    may_end: impl FnOnce(&mut Program) -> Result<(), Failure>,
    end: impl FnOnce(Program) -> Result<(), Failure>,
) -> Result<(), Failure> {
    with(world, may_end)?;
    let program = ManuallyDrop::into_inner(take(world)?);
    let result = without_panic(|| end(*program));
    set(State::Absent);
    result
}

/// The world of this thread, unless a call is in progress.
pub fn idle() -> Option<*const WorldHandle> {
    look(|state| match state {
        State::Idle(serial, _) => Some(ptr::without_provenance(*serial)),
        _ => None,
    })
}

/// Whether this thread has a world, in any state.
pub fn has_world() -> bool {
    look(|state| !matches!(state, State::Absent))
}

fn take(world: *const WorldHandle) -> Result<ManuallyDrop<Box<Program>>, Failure> {
    refrain::check_process()?;
    match replace(State::Busy) {
        State::Idle(serial, program) if serial == world.addr() => Ok(program),
        other => {
            set(other);
            Err(refused(world))
        }
    }
}

/// The error for a state in which the world cannot be used. A function of its own, so that the
/// caller keeps the state in registers.
#[cold]
#[inline(never)]
fn refused(world: *const WorldHandle) -> Failure {
    let why = look(|state| match state {
        State::Broken(serial) if *serial == world.addr() => {
            "a defect of the library has ended this world (see the error before)"
        }
        State::Busy => "a call of this thread is under way: signal handlers may make none",
        _ if world.is_null() => "the world is NULL",
        _ => {
            "there is no such world on this thread: refrain_init makes it, and refrain_finalize ends it"
        }
    });
    Failure::new(Code::World, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain::World;

    fn world() -> *mut WorldHandle {
        begin(|| Ok(Program::new(World::init()?))).unwrap()
    }

    fn why<T: core::fmt::Debug>(result: Result<T, Failure>) -> (Code, String) {
        let failure = result.unwrap_err();
        (failure.code, failure.text)
    }

    #[test]
    fn a_world_is_not_used_after_a_panic() {
        let world = world();
        let (code, text) = why(with(world, |_| -> Result<(), _> { panic!("on purpose") }));
        assert_eq!(code, Code::Internal);
        assert!(text.contains("on purpose"), "{text}");
        let (code, text) = why(with(world, |_| Ok(())));
        assert_eq!(code, Code::World);
        assert!(text.contains("see the error before"), "{text}");
        assert_eq!(why(end(world, |_| Ok(()), |_| Ok(()))).0, Code::World);
    }

    #[test]
    fn an_error_leaves_the_world_as_it_is() {
        let world = world();
        let failed = why(with(world, |_| -> Result<(), _> {
            Err(Failure::argument("no"))
        }));
        assert_eq!(failed, (Code::Argument, "no".into()));
        assert!(with(world, |_| Ok(())).is_ok());
        let refused = end(
            world,
            |_| Err(Failure::argument("not yet")),
            Program::finalize,
        );
        assert_eq!(why(refused).1, "not yet");
        assert!(end(world, |_| Ok(()), Program::finalize).is_ok());
        assert_eq!(why(with(world, |_| Ok(()))).0, Code::World);
    }

    #[test]
    fn a_call_within_a_call_finds_no_world() {
        let world = world();
        let inner = with(world, |_| Ok(why(with(world, |_| Ok(())))));
        let (code, text) = inner.unwrap();
        assert_eq!(code, Code::World);
        assert!(text.contains("under way"), "{text}");
        assert!(with(world, |_| Ok(())).is_ok());
    }
}
