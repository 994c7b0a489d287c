//! The border between C and Rust: bodies run on a stack of the library's own, no panic leaves them,
//! and errors go to the error handler of their object.

#![allow(unsafe_code, reason = "is called by the loader")]

use super::abi::{Comm, HandleError, Subject};
use super::calls::errors;
use super::exports as abi;
use super::failure::{Failure, Result};
use super::state::mpi;
use core::ffi::c_int;
use refrain_border::own_stack;

/// Runs the body of a function. Returns `MPI_SUCCESS`, or what the error handler leaves.
#[inline]
pub fn call(name: &'static str, subject: Subject, body: impl FnOnce() -> Result) -> c_int {
    mpi().called.set((name, subject));
    own_stack::run(|| match refrain_border::catch(body) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => failed(name, subject, failure).into(),
        Err(defect) => failed(name, subject, Failure::new(abi::ERR_INTERN, defect)).into(),
    }) as c_int
}

/// As [`call`], for a function of the interface for tools, which has no error handlers.
pub fn tool(body: impl FnOnce() -> Result) -> c_int {
    own_stack::run(|| match refrain_border::catch(body) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => failure.code.into(),
        Err(_) => abi::T_ERR_INVALID.into(),
    }) as c_int
}

/// As [`call`], for a function that joins the job: what it leaves on the program's stack is
/// overwritten.
pub fn join(name: &'static str, subject: Subject, body: impl FnOnce() -> Result) -> c_int {
    let code = call(name, subject, body);
    own_stack::overwrite_below();
    code
}

/// Refuses a null pointer to a place for a result.
#[inline(always)]
pub fn given<T>(name: &str, place: *mut T) -> Result {
    match place.is_null() {
        true => Err(no_place(name)),
        false => Ok(()),
    }
}

/// The failure of a call whose place for a result is null.
#[cold]
#[inline(never)]
pub fn no_place(name: &str) -> Failure {
    Failure::new(
        abi::ERR_ARG,
        format_args!("the pointer `{name}`, where a result goes, is NULL"),
    )
}

/// A function without a body.
#[cold]
pub fn missing(name: &'static str, subject: Subject) -> c_int {
    call(name, subject, || {
        Err(Failure::new(
            abi::ERR_UNSUPPORTED_OPERATION,
            "this function is not implemented by Refrain",
        ))
    })
}

/// What an error handler does.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    Abort,
    Return,
    /// A function of the program, and the handle of the object that it gets.
    Call(HandleError, usize),
}

/// Gives a failure to the error handler.
#[cold]
#[inline(never)]
fn failed(name: &str, subject: Subject, failure: Failure) -> c_int {
    let text = format!("{name}: {}", failure.text);
    if let Ok(mut last) = mpi().last_error.try_borrow_mut() {
        *last = (failure.code, text);
    }
    let code = match errors::handler(subject) {
        Handler::Return => failure.code,
        Handler::Abort => fatal(name, subject, &failure),
        Handler::Call(function, handle) => errors::call_handler(function, handle, failure.code),
    };
    // A program that goes on without its engine would wait for ever. REC-8
    match failure.is_final {
        true => fatal(name, subject, &failure),
        false => code,
    }
}

/// The function that the program has called, and its communicator.
pub fn called() -> String {
    let (name, subject) = mpi().called.get();
    with_place(name, subject)
}

fn with_place(name: &str, subject: Subject) -> String {
    match subject {
        Subject::Comm(comm) => format!("{name} on {}", named(comm)),
        _ => name.to_owned(),
    }
}

fn fatal(name: &str, subject: Subject, failure: &Failure) -> ! {
    let call = with_place(name, subject);
    let class = errors::name_of(failure.code);
    let rank = mpi().idle_world().map(|world| world.rank().0);
    let rank = rank.map_or_else(String::new, |rank| format!("rank {rank}: "));
    eprintln!("refrain: {rank}{call} failed: {class}: {}", failure.text);
    std::process::exit(1)
}

/// The name of a communicator, for messages to people.
pub fn named(comm: Comm) -> String {
    if comm == abi::COMM_NULL {
        return "MPI_COMM_NULL".into();
    }
    let communicators = mpi().communicators.try_borrow();
    let name = communicators
        .ok()
        .and_then(|all| Some(all.get(comm).ok()?.name.clone()));
    match name {
        Some(name) if !name.is_empty() => String::from_utf8_lossy(&name).into_owned(),
        _ => format!("communicator {}", comm.0),
    }
}

/// Tasks that another launcher has started become ranks before the program begins.
// SAFETY: the loader calls what is in this section, with arguments that C functions may
// ignore.
#[used]
#[unsafe(link_section = ".init_array")]
static REPLACE_TASK: extern "C" fn() = {
    extern "C" fn replace() {
        refrain_border::direct_start::replace_task();
    }
    replace
};
