//! Sessions (MPI-5.0, section 11.3). A process joins its job once: with sessions it leaves at its exit,
//! so that a session may begin after another one has ended.

#![allow(unsafe_code, reason = "reads handles and texts of the program")]

use super::buffering::{Owner, forget};
use super::environment::{join, leave};
use crate::abi::{Errhandler, Group, Info, Session, put, put_text, text};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::group::Members;
use crate::state::{Phase, made, mpi};
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicBool, Ordering};
use refrain::Rank;
use refrain_border::own_stack;

/// The process sets of each session.
const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// A session was made.
static LEAVES_AT_EXIT: AtomicBool = AtomicBool::new(false);

/// Whether the process leaves its job at its exit.
pub fn leaves_at_exit() -> bool {
    LEAVES_AT_EXIT.load(Ordering::Relaxed)
}

extern "C" fn at_exit() {
    own_stack::run(|| {
        let is_over = mpi().phase.get() != Phase::Running && mpi().sessions.borrow().count() == 0;
        if is_over && mpi().idle_world().is_some() {
            // Nobody is left to be told.
            let _ = leave();
        }
        0
    });
}

pub fn session_init(_info: Info, handler: Errhandler, place: *mut Session) -> Result {
    super::errors::check(handler)?;
    join()?;
    if !LEAVES_AT_EXIT.swap(true, Ordering::Relaxed) {
        // SAFETY: the C library's own function, which has this type.
        unsafe extern "C" {
            fn atexit(function: extern "C" fn()) -> c_int;
        }
        // SAFETY: the function stays.
        unsafe { atexit(at_exit) };
    }
    let handle = made(mpi().sessions.borrow_mut().add(handler), "sessions")?;
    put(place, Session(handle));
    Ok(())
}

pub fn known(session: Session) -> Result {
    match mpi().sessions.borrow().get(session.0) {
        Some(_) => Ok(()),
        None => Err(Failure::new(
            abi::ERR_SESSION,
            format_args!(
                "session {} does not exist: it was finalized, or never made",
                session.0
            ),
        )),
    }
}

pub fn session_finalize(place: *mut Session) -> Result {
    // SAFETY: the standard asks the program for a handle.
    let session = unsafe { *place };
    known(session)?;
    mpi().sessions.borrow_mut().remove(session.0);
    forget(Owner::Session(session));
    put(place, abi::SESSION_NULL);
    Ok(())
}

pub fn session_get_num_psets(session: Session, _info: Info, number: *mut c_int) -> Result {
    known(session)?;
    put(number, SETS.len() as c_int);
    Ok(())
}

pub fn session_get_nth_pset(
    session: Session,
    _info: Info,
    number: c_int,
    length: *mut c_int,
    place: *mut c_char,
) -> Result {
    known(session)?;
    let name = SETS.get(number as usize).ok_or_else(|| {
        Failure::argument(format_args!(
            "process set {number} does not exist: there are 2"
        ))
    })?;
    // SAFETY: the standard asks the program for a length.
    let room = unsafe { *length }.max(0) as usize;
    if room > 0 {
        put_text(place, name, room);
    }
    put(length, name.len() as c_int + 1);
    Ok(())
}

/// The members of a process set.
fn members(name: *const c_char) -> Result<Members> {
    // SAFETY: the standard asks the program for a text.
    let name = unsafe { text(name) }.unwrap_or_default();
    let world = mpi().world()?;
    match SETS
        .iter()
        .position(|set| set.as_bytes().eq_ignore_ascii_case(&name))
    {
        Some(0) => Ok((0..world.size()).map(Rank).collect()),
        Some(_) => Ok([world.rank()].into()),
        None => Err(Failure::argument(format_args!(
            "there is no process set \"{}\": use mpi://WORLD or mpi://SELF",
            name.escape_ascii()
        ))),
    }
}

pub fn session_get_pset_info(session: Session, name: *const c_char, place: *mut Info) -> Result {
    known(session)?;
    let size = members(name)?.len().to_string();
    let pairs = vec![("mpi_size".into(), size.into())];
    put(place, mpi().infos.borrow_mut().add(pairs)?);
    Ok(())
}

pub fn session_get_info(session: Session, place: *mut Info) -> Result {
    known(session)?;
    let pairs = vec![("thread_level".into(), "MPI_THREAD_SERIALIZED".into())];
    put(place, mpi().infos.borrow_mut().add(pairs)?);
    Ok(())
}

pub fn group_from_session_pset(session: Session, name: *const c_char, place: *mut Group) -> Result {
    known(session)?;
    let members = members(name)?;
    put(place, mpi().groups.borrow_mut().add(members)?);
    Ok(())
}
