//! The interface for tools (MPI-5.0, chapter 15). Its performance variables are the counters of the
//! rank; there are no control variables, events, sources and categories.
//!
//! A value that is read is an event: a later life gets the same one in its replay.

#![allow(
    unsafe_code,
    reason = "reads and writes handles and texts of the program"
)]

use crate::abi::{
    Datatype, Info, Tcbsafety, Tcvarhandle, Tenum, Teventinstance, Teventregistration, Tpvarhandle,
    Tpvarsession, Tsourceorder, Unused, put, put_text, text,
};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::state::mpi;
use core::cell::Cell;
use core::ffi::{c_char, c_int, c_void};
use refrain::Statistics;

/// A counter.
struct Variable {
    name: &'static str,
    about: &'static str,
    class: c_int,
    read: fn(&Statistics) -> u64,
}

const fn counter(
    name: &'static str,
    about: &'static str,
    read: fn(&Statistics) -> u64,
) -> Variable {
    Variable {
        name,
        about,
        class: abi::T_PVAR_CLASS_COUNTER,
        read,
    }
}

const VARIABLES: [Variable; 8] = [
    counter("messages_sent", "Messages sent", |of| of.messages_sent),
    counter("bytes_sent", "Payload bytes of the messages sent", |of| {
        of.bytes_sent
    }),
    counter("receives", "Receives posted", |of| of.receives),
    counter(
        "unexpected_messages",
        "Messages that arrived before their receive",
        |of| of.unexpected,
    ),
    counter(
        "events",
        "Non-deterministic outcomes, logged or not",
        |of| of.events,
    ),
    counter(
        "log_bytes_appended",
        "Bytes appended to the log of messages, with headers",
        |of| of.log_bytes_appended,
    ),
    counter(
        "log_bytes_spilled",
        "Bytes of the log that were written to disk",
        |of| of.log_bytes_spilled,
    ),
    Variable {
        class: abi::T_PVAR_CLASS_LEVEL,
        ..counter("log_memory_bytes", "Memory of the log in use", |of| {
            of.log_bytes
        })
    },
];

/// A session's handle of a variable.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    session: Tpvarsession,
    variable: usize,
    /// What a reset made zero, of a counter.
    zero: u64,
}

/// Calls of `MPI_T_init_thread` that were not finalized.
static USERS: Users = Users(Cell::new(0));

struct Users(Cell<u32>);

// SAFETY: calls of threads take turns (`MPI_THREAD_SERIALIZED`).
unsafe impl Sync for Users {}

/// The series of values that tools read (`World::answer_number`).
const SERIES: u8 = 15;

fn error(code: c_int, text: &str) -> Failure {
    Failure::new(code, text)
}

fn initialized() -> Result {
    match USERS.0.get() {
        0 => Err(error(
            abi::T_ERR_NOT_INITIALIZED,
            "call MPI_T_init_thread first",
        )),
        _ => Ok(()),
    }
}

/// The error of a call that names one of something that there is not.
fn none<T>() -> Result<T> {
    initialized()?;
    Err(error(abi::T_ERR_INVALID_INDEX, "the index does not exist"))
}

fn no_name<T>() -> Result<T> {
    initialized()?;
    Err(error(abi::T_ERR_INVALID_NAME, "the name does not exist"))
}

fn no_handle<T>() -> Result<T> {
    initialized()?;
    Err(error(
        abi::T_ERR_INVALID_HANDLE,
        "the handle does not exist",
    ))
}

pub fn t_init_thread(required: c_int, provided: *mut c_int) -> Result {
    USERS.0.set(USERS.0.get() + 1);
    put(
        provided,
        required.clamp(abi::THREAD_SINGLE, abi::THREAD_SERIALIZED),
    );
    Ok(())
}

pub fn t_finalize() -> Result {
    initialized()?;
    USERS.0.set(USERS.0.get() - 1);
    Ok(())
}

fn count(place: *mut c_int, number: usize) -> Result {
    initialized()?;
    put(place, number as c_int);
    Ok(())
}

pub fn t_cvar_get_num(number: *mut c_int) -> Result {
    count(number, 0)
}

pub fn t_pvar_get_num(number: *mut c_int) -> Result {
    count(number, VARIABLES.len())
}

pub fn t_category_get_num(number: *mut c_int) -> Result {
    count(number, 0)
}

pub fn t_event_get_num(number: *mut c_int) -> Result {
    count(number, 0)
}

pub fn t_source_get_num(number: *mut c_int) -> Result {
    count(number, 0)
}

pub fn t_category_changed(number: *mut c_int) -> Result {
    count(number, 0)
}

fn variable(index: c_int) -> Result<(usize, &'static Variable)> {
    initialized()?;
    let index = usize::try_from(index).ok();
    let found = index.and_then(|index| Some((index, VARIABLES.get(index)?)));
    found.map_or_else(none, Ok)
}

/// Gives a text to the program, which says how much room it has; `length` becomes what is needed.
fn give_text(place: *mut c_char, length: *mut c_int, text: &str) {
    if length.is_null() {
        return;
    }
    // SAFETY: the standard asks the program for the length of the room.
    let room = unsafe { length.read() };
    if room > 0 {
        put_text(place, text, room as usize);
    }
    put(length, text.len() as c_int + 1);
}

pub fn t_pvar_get_info(
    index: c_int,
    name: *mut c_char,
    name_length: *mut c_int,
    verbosity: *mut c_int,
    class: *mut c_int,
    datatype: *mut Datatype,
    enumeration: *mut Tenum,
    about: *mut c_char,
    about_length: *mut c_int,
    bind: *mut c_int,
    is_readonly: *mut c_int,
    is_continuous: *mut c_int,
    is_atomic: *mut c_int,
) -> Result {
    let (_, variable) = variable(index)?;
    give_text(name, name_length, variable.name);
    give_text(about, about_length, variable.about);
    put(verbosity, abi::T_VERBOSITY_USER_BASIC);
    put(class, variable.class);
    put(datatype, abi::UNSIGNED_LONG_LONG);
    put(enumeration, abi::T_ENUM_NULL);
    put(bind, abi::T_BIND_NO_OBJECT);
    put(
        is_readonly,
        c_int::from(variable.class != abi::T_PVAR_CLASS_COUNTER),
    );
    put(is_continuous, 1);
    put(is_atomic, 0);
    Ok(())
}

pub fn t_pvar_get_index(name: *const c_char, class: c_int, index: *mut c_int) -> Result {
    initialized()?;
    // SAFETY: the standard asks the program for a text.
    let name = unsafe { text(name) }.unwrap_or_default();
    let is_it = |it: &Variable| it.name.as_bytes() == name && it.class == class;
    match VARIABLES.iter().position(is_it) {
        Some(found) => {
            put(index, found as c_int);
            Ok(())
        }
        None => no_name(),
    }
}

pub fn t_pvar_session_create(session: *mut Tpvarsession) -> Result {
    initialized()?;
    let full = || error(abi::T_ERR_OUT_OF_SESSIONS, "there are too many sessions");
    let made = mpi().tool_sessions.borrow_mut().add(());
    put(session, Tpvarsession(made.ok_or_else(full)?));
    Ok(())
}

fn known(session: Tpvarsession) -> Result {
    initialized()?;
    match mpi().tool_sessions.borrow().get(session.0) {
        Some(()) => Ok(()),
        None => Err(error(
            abi::T_ERR_INVALID_SESSION,
            "the session does not exist",
        )),
    }
}

/// The handle that a call frees.
fn handle_at<T: Copy>(place: *mut T) -> Result<T> {
    match place.is_null() {
        true => Err(error(abi::T_ERR_INVALID, "the pointer to a handle is NULL")),
        // SAFETY: the standard asks the program for a handle.
        false => Ok(unsafe { *place }),
    }
}

pub fn t_pvar_session_free(place: *mut Tpvarsession) -> Result {
    let session = handle_at(place)?;
    known(session)?;
    mpi().tool_sessions.borrow_mut().remove(session.0);
    put(place, abi::T_PVAR_SESSION_NULL);
    Ok(())
}

pub fn t_pvar_handle_alloc(
    session: Tpvarsession,
    index: c_int,
    _object: *mut c_void,
    place: *mut Tpvarhandle,
    number: *mut c_int,
) -> Result {
    known(session)?;
    let (variable, _) = variable(index)?;
    let handle = Handle {
        session,
        variable,
        zero: 0,
    };
    let full = || error(abi::T_ERR_OUT_OF_HANDLES, "there are too many handles");
    let made = mpi().tool_handles.borrow_mut().add(handle);
    put(place, Tpvarhandle(made.ok_or_else(full)?));
    put(number, 1);
    Ok(())
}

/// The handle, if it is of this session.
fn handle(session: Tpvarsession, handle: Tpvarhandle) -> Result<Handle> {
    known(session)?;
    let handles = mpi().tool_handles.borrow();
    let found = handles.get(handle.0).filter(|it| it.session == session);
    found.map_or_else(no_handle, |it| Ok(*it))
}

pub fn t_pvar_handle_free(session: Tpvarsession, place: *mut Tpvarhandle) -> Result {
    let of = handle_at(place)?;
    handle(session, of)?;
    mpi().tool_handles.borrow_mut().remove(of.0);
    put(place, abi::T_PVAR_HANDLE_NULL);
    Ok(())
}

/// The present value of a variable; 0 while the process is in no job.
fn present(variable: usize) -> Result<u64> {
    let Some(mut world) = mpi().idle_world() else {
        return Ok(0);
    };
    let value = (VARIABLES[variable].read)(&world.statistics());
    let value = world.answer_number(SERIES, value as i64)?;
    Ok(value as u64)
}

/// All variables run from the beginning of the job on.
pub fn t_pvar_start(session: Tpvarsession, of: Tpvarhandle) -> Result {
    no_start_or_stop(session, of)
}

pub fn t_pvar_stop(session: Tpvarsession, of: Tpvarhandle) -> Result {
    no_start_or_stop(session, of)
}

fn no_start_or_stop(session: Tpvarsession, of: Tpvarhandle) -> Result {
    // It concerns all variables that can be started: none.
    if of == abi::T_PVAR_ALL_HANDLES {
        return known(session);
    }
    handle(session, of)?;
    Err(error(
        abi::T_ERR_PVAR_NO_STARTSTOP,
        "the variable runs all the time",
    ))
}

pub fn t_pvar_read(session: Tpvarsession, of: Tpvarhandle, place: *mut c_void) -> Result {
    let handle = handle(session, of)?;
    let value = present(handle.variable)?.wrapping_sub(handle.zero);
    put(place.cast::<u64>(), value);
    Ok(())
}

fn set_zero(of: Tpvarhandle, mut handle: Handle) -> Result {
    if VARIABLES[handle.variable].class != abi::T_PVAR_CLASS_COUNTER {
        return Err(error(
            abi::T_ERR_PVAR_NO_WRITE,
            "the variable cannot be reset",
        ));
    }
    handle.zero = present(handle.variable)?;
    if let Some(known) = mpi().tool_handles.borrow_mut().get_mut(of.0) {
        *known = handle;
    }
    Ok(())
}

pub fn t_pvar_reset(session: Tpvarsession, of: Tpvarhandle) -> Result {
    if of == abi::T_PVAR_ALL_HANDLES {
        return known(session);
    }
    set_zero(of, handle(session, of)?)
}

pub fn t_pvar_readreset(session: Tpvarsession, of: Tpvarhandle, place: *mut c_void) -> Result {
    t_pvar_read(session, of, place)?;
    t_pvar_reset(session, of)
}

pub fn t_pvar_write(session: Tpvarsession, of: Tpvarhandle, _value: *const c_void) -> Result {
    handle(session, of)?;
    Err(error(
        abi::T_ERR_PVAR_NO_WRITE,
        "the variable cannot be written",
    ))
}

/// Functions for what there is none of.
macro_rules! absent {
    ($($function:ident($($of:ty),*): $error:ident;)*) => {$(
        pub fn $function($(_: $of),*) -> Result {
            $error()
        }
    )*};
}

type Int = *mut c_int;
type Text = *mut c_char;

absent! {
    t_category_get_categories(c_int, c_int, Int): none;
    t_category_get_cvars(c_int, c_int, Int): none;
    t_category_get_events(c_int, c_int, Int): none;
    t_category_get_index(*const c_char, Int): no_name;
    t_category_get_info(c_int, Text, Int, Text, Int, Int, Int, Int): none;
    t_category_get_num_events(c_int, Int): none;
    t_category_get_pvars(c_int, c_int, Int): none;
    t_cvar_get_index(*const c_char, Int): no_name;
    t_cvar_get_info(c_int, Text, Int, Int, *mut Datatype, *mut Tenum, Text, Int, Int, Int): none;
    t_cvar_handle_alloc(c_int, *mut c_void, *mut Tcvarhandle, Int): none;
    t_cvar_handle_free(*mut Tcvarhandle): no_handle;
    t_cvar_read(Tcvarhandle, *mut c_void): no_handle;
    t_cvar_write(Tcvarhandle, *const c_void): no_handle;
    t_enum_get_info(Tenum, Int, Text, Int): no_handle;
    t_enum_get_item(Tenum, c_int, Int, Text, Int): no_handle;
    t_event_callback_get_info(Teventregistration, Tcbsafety, *mut Info): no_handle;
    t_event_callback_set_info(Teventregistration, Tcbsafety, Info): no_handle;
    t_event_copy(Teventinstance, *mut c_void): no_handle;
    t_event_get_index(*const c_char, Int): no_name;
    t_event_get_info(c_int, Text, Int, Int, *mut Datatype, *mut i64, Int, *mut Tenum, *mut Info, Text, Int, Int): none;
    t_event_get_source(Teventinstance, Int): no_handle;
    t_event_get_timestamp(Teventinstance, *mut i64): no_handle;
    t_event_handle_alloc(c_int, *mut c_void, Info, *mut Teventregistration): none;
    t_event_handle_free(Teventregistration, *mut c_void, Option<Unused>): no_handle;
    t_event_handle_get_info(Teventregistration, *mut Info): no_handle;
    t_event_handle_set_info(Teventregistration, Info): no_handle;
    t_event_read(Teventinstance, c_int, *mut c_void): no_handle;
    t_event_register_callback(Teventregistration, Tcbsafety, Info, *mut c_void, Option<Unused>): no_handle;
    t_event_set_dropped_handler(Teventregistration, Option<Unused>): no_handle;
    t_source_get_info(c_int, Text, Int, Text, Int, *mut Tsourceorder, *mut i64, *mut i64, *mut Info): none;
    t_source_get_timestamp(c_int, *mut i64): none;
}
