//! Probes and matched messages (MPI-5.0, section 3.8).

#![allow(unsafe_code, reason = "reads the program's message handle")]

use super::types::incoming;
use crate::abi::{Comm, Datatype, Message, Request, Status, put, put_status};
use crate::communicator::Finder;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::request::{Entry, Matched, Operation, from_proc_null, of_receive, truncated};
use crate::state::{made, mpi};
use core::ffi::{c_int, c_void};
use refrain::{Source, Status as Found};

fn from(source: c_int, tag: c_int, comm: Comm) -> Result<(Option<Source>, Finder)> {
    let communicators = mpi().communicators.borrow();
    let comm = communicators.get(comm)?;
    Ok((comm.from(source, tag)?, comm.finder()))
}

fn status_of(found: &Found, finder: &Finder) -> Status {
    Status::new(finder.place(found.source), found.tag, found.bytes)
}

pub fn probe(source: c_int, tag: c_int, comm: Comm, status: *mut Status) -> Result {
    let (from, finder) = from(source, tag, comm)?;
    put(
        status,
        match from {
            None => from_proc_null(),
            Some(from) => status_of(&mpi().world()?.probe(from)?, &finder),
        },
    );
    Ok(())
}

pub fn iprobe(
    source: c_int,
    tag: c_int,
    comm: Comm,
    flag: *mut c_int,
    status: *mut Status,
) -> Result {
    let (from, finder) = from(source, tag, comm)?;
    let found = match from {
        None => Some(from_proc_null()),
        Some(from) => {
            let found = mpi().world()?.iprobe(from)?;
            found.map(|found| status_of(&found, &finder))
        }
    };
    put(flag, found.is_some().into());
    if let Some(found) = found {
        put_status(status, found);
    }
    Ok(())
}

/// Gives a message to the program.
fn give(
    message: refrain::Message,
    source: Finder,
    place: *mut Message,
    status: *mut Status,
) -> Result {
    put_status(status, status_of(&message.status, &source));
    let matched = Matched { message, source };
    let handle = made(mpi().messages.borrow_mut().add(matched), "messages")?;
    put(place, Message(handle));
    Ok(())
}

pub fn mprobe(
    source: c_int,
    tag: c_int,
    comm: Comm,
    place: *mut Message,
    status: *mut Status,
) -> Result {
    let (from, finder) = from(source, tag, comm)?;
    let Some(from) = from else {
        put(place, abi::MESSAGE_NO_PROC);
        put_status(status, from_proc_null());
        return Ok(());
    };
    let message = mpi().world()?.mprobe(from)?;
    give(message, finder, place, status)
}

pub fn improbe(
    source: c_int,
    tag: c_int,
    comm: Comm,
    flag: *mut c_int,
    place: *mut Message,
    status: *mut Status,
) -> Result {
    let (from, finder) = from(source, tag, comm)?;
    put(flag, 1);
    let Some(from) = from else {
        put(place, abi::MESSAGE_NO_PROC);
        put_status(status, from_proc_null());
        return Ok(());
    };
    match mpi().world()?.improbe(from)? {
        Some(message) => give(message, finder, place, status),
        None => {
            put(flag, 0);
            put(place, abi::MESSAGE_NULL);
            Ok(())
        }
    }
}

/// Takes the message from the program's handle; `None`: that of `MPI_PROC_NULL`.
fn take(place: *mut Message) -> Result<Option<Matched>> {
    // SAFETY: the standard asks the program for a handle.
    let message = unsafe { &mut *place };
    let taken = match *message {
        abi::MESSAGE_NO_PROC => None,
        Message(handle) => Some(mpi().messages.borrow_mut().remove(handle).ok_or_else(|| {
            Failure::new(
                abi::ERR_REQUEST,
                format_args!("message {handle} does not exist: it was received, or never made"),
            )
        })?),
    };
    *message = abi::MESSAGE_NULL;
    Ok(taken)
}

pub fn mrecv(
    at: *mut c_void,
    count: i64,
    datatype: Datatype,
    place: *mut Message,
    status: *mut Status,
) -> Result {
    let room = incoming(at, count, datatype)?;
    let Some(Matched { message, source }) = take(place)? else {
        put_status(status, from_proc_null());
        return Ok(());
    };
    let mut world = mpi().world()?;
    let mut receive = world.begin_matched_receive(room, message).handle();
    let ended = world.wait_held(&mut receive)?;
    drop(world);
    put_status(
        status,
        of_receive(source.place(ended.status.source), &ended),
    );
    truncated(&ended).map_or(Ok(()), Err)
}

pub fn imrecv(
    at: *mut c_void,
    count: i64,
    datatype: Datatype,
    place: *mut Message,
    request: *mut Request,
) -> Result {
    let room = incoming(at, count, datatype)?;
    let entry = match take(place)? {
        None => Entry::new(Operation::Nothing, Some(Finder::default())),
        Some(Matched { message, source }) => {
            let library = mpi().world()?.begin_matched_receive(room, message);
            Entry::library(library, Some(source))
        }
    };
    mpi().give(request, entry)
}
