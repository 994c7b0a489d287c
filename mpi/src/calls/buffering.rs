//! Buffers for buffered sends (MPI-5.0, section 3.6).
//!
//! The library copies a message into its log, or into a copy of its own; the program's buffer is
//! only counted. So it has room for one message after the other, and is empty at any time.

use crate::abi::{Comm, Place, Request, Session, put};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::state::mpi;
use core::ffi::c_void;
use refrain::SendBuffer;

/// A buffer that the program has attached: its address and length.
#[derive(Clone, Copy, Debug)]
pub struct Attached {
    of: Owner,
    at: *mut c_void,
    bytes: i64,
}

/// Whose messages use a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Process,
    Comm(Comm),
    Session(Session),
}

/// Checks that a message on a communicator fits the attached buffer. The buffer of a communicator
/// goes before that of the process.
pub fn check(data: &SendBuffer, comm: Comm) -> Result {
    let needed = data.message_bytes() as i64 + i64::from(abi::BSEND_OVERHEAD);
    let buffers = mpi().attached.borrow();
    let of = |owner: Owner| buffers.iter().find(move |it| it.of == owner);
    let own = of(Owner::Comm(comm)).or_else(|| of(Owner::Process));
    // Which session a communicator belongs to is not known.
    let buffer = own.or_else(|| buffers.iter().find(|it| matches!(it.of, Owner::Session(_))));
    match buffer {
        Some(buffer) if buffer.at.addr() == BUFFER_AUTOMATIC || needed <= buffer.bytes => Ok(()),
        Some(buffer) => Err(Failure::new(
            abi::ERR_BUFFER,
            format_args!(
                "the message needs {needed} bytes with MPI_BSEND_OVERHEAD, and the attached buffer has {}",
                buffer.bytes
            ),
        )),
        None => Err(Failure::new(
            abi::ERR_BUFFER,
            "no buffer is attached: call MPI_Buffer_attach before a buffered send",
        )),
    }
}

/// `MPI_BUFFER_AUTOMATIC`
const BUFFER_AUTOMATIC: usize = 2;

fn attach(of: Owner, at: *mut c_void, bytes: i64) -> Result {
    let mut buffers = mpi().attached.borrow_mut();
    if buffers.iter().any(|it| it.of == of) {
        return Err(Failure::new(
            abi::ERR_BUFFER,
            "a buffer is attached already: detach it first",
        ));
    }
    if bytes < 0 {
        return Err(Failure::argument(format_args!(
            "the buffer has {bytes} bytes: give 0 or more"
        )));
    }
    if at.is_null() && bytes > 0 {
        return Err(Failure::new(abi::ERR_BUFFER, "the buffer is NULL"));
    }
    buffers.push(Attached { of, at, bytes });
    Ok(())
}

fn detach(of: Owner, place: *mut c_void, bytes: Place) -> Result {
    let mut buffers = mpi().attached.borrow_mut();
    let Some(index) = buffers.iter().position(|it| it.of == of) else {
        return Err(Failure::new(abi::ERR_BUFFER, "no buffer is attached"));
    };
    let buffer = buffers.swap_remove(index);
    put(place.cast::<*mut c_void>(), buffer.at);
    bytes.set(buffer.bytes);
    Ok(())
}

/// The owner is gone.
pub fn forget(of: Owner) {
    mpi().attached.borrow_mut().retain(|it| it.of != of);
}

fn of_comm(comm: Comm) -> Result<Owner> {
    mpi().communicators.borrow().get(comm)?;
    Ok(Owner::Comm(comm))
}

fn of_session(session: Session) -> Result<Owner> {
    super::sessions::known(session)?;
    Ok(Owner::Session(session))
}

pub fn buffer_attach(at: *mut c_void, bytes: i64) -> Result {
    attach(Owner::Process, at, bytes)
}

pub fn buffer_detach(place: *mut c_void, bytes: Place) -> Result {
    detach(Owner::Process, place, bytes)
}

pub fn buffer_flush() -> Result {
    Ok(())
}

pub fn buffer_iflush(request: *mut Request) -> Result {
    mpi().give_sent(request)
}

pub fn comm_attach_buffer(comm: Comm, at: *mut c_void, bytes: i64) -> Result {
    attach(of_comm(comm)?, at, bytes)
}

pub fn comm_detach_buffer(comm: Comm, place: *mut c_void, bytes: Place) -> Result {
    detach(of_comm(comm)?, place, bytes)
}

pub fn comm_flush_buffer(comm: Comm) -> Result {
    of_comm(comm).map(drop)
}

pub fn comm_iflush_buffer(comm: Comm, request: *mut Request) -> Result {
    of_comm(comm)?;
    mpi().give_sent(request)
}

pub fn session_attach_buffer(session: Session, at: *mut c_void, bytes: i64) -> Result {
    attach(of_session(session)?, at, bytes)
}

pub fn session_detach_buffer(session: Session, place: *mut c_void, bytes: Place) -> Result {
    detach(of_session(session)?, place, bytes)
}

pub fn session_flush_buffer(session: Session) -> Result {
    of_session(session).map(drop)
}

pub fn session_iflush_buffer(session: Session, request: *mut Request) -> Result {
    of_session(session)?;
    mpi().give_sent(request)
}
