//! Messages between two ranks (MPI-5.0, chapter 3).

#![allow(unsafe_code, reason = "lends the program's buffers to the library")]

use super::types::{incoming, outgoing};
use crate::abi::{Comm, Datatype, Request, Status, put};
use crate::communicator::Communicator;
use crate::exports as abi;
use crate::failure::Result;
use crate::request::{Entry, Operation, Persistent, empty, from_nobody, truncated};
use crate::state::mpi;
use core::ffi::{c_int, c_void};
use refrain::{SendBuffer, SendTo};

/// The mode of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Standard; also ready: the receive is there already, so nothing differs.
    Standard,
    Synchronous,
    /// Its end does not depend on the receiver.
    Buffered,
}

/// A message as the program describes it.
#[derive(Clone, Copy, Debug)]
struct Data {
    at: *const c_void,
    count: i64,
    datatype: Datatype,
}

/// Where the program sends it.
#[derive(Clone, Copy, Debug)]
struct Destination {
    rank: c_int,
    tag: c_int,
    comm: Comm,
}

#[inline]
fn with<T>(comm: Comm, act: impl FnOnce(&Communicator) -> Result<T>) -> Result<T> {
    act(mpi().communicators.borrow().get(comm)?)
}

impl Destination {
    #[inline]
    fn find(&self, mode: Mode) -> Result<Option<SendTo>> {
        let to = with(self.comm, |comm| comm.to(self.rank, self.tag))?;
        Ok(match mode {
            Mode::Synchronous => to.map(SendTo::synchronous),
            _ => to,
        })
    }
}

impl Data {
    #[inline]
    fn outgoing(&self, mode: Mode) -> Result<SendBuffer> {
        let buffer = outgoing(self.at, self.count, self.datatype)?;
        if mode == Mode::Buffered {
            super::buffering::check(&buffer)?;
        }
        Ok(buffer)
    }
}

/// Sends, and returns when the data may be changed.
#[inline]
fn send_now(mode: Mode, data: Data, to: Destination) -> Result {
    let Some(to) = to.find(mode)? else {
        return Ok(());
    };
    let buffer = data.outgoing(mode)?;
    let mut world = mpi().world()?;
    if mode == Mode::Buffered {
        let mut request = world.start_send(buffer, to)?;
        // It continues from a copy.
        return Ok(world.free(&mut request)?);
    }
    Ok(world.send(buffer, to)?)
}

fn begin_send(mode: Mode, data: Data, to: Destination, place: *mut Request) -> Result {
    let operation = match (to.find(mode)?, mode) {
        (None, _) => Operation::Nothing,
        (Some(_), Mode::Buffered) => {
            send_now(mode, data, to)?;
            Operation::Nothing
        }
        (Some(to), _) => {
            let buffer = data.outgoing(mode)?;
            Operation::Library(mpi().world()?.start_send(buffer, to)?)
        }
    };
    mpi().give(place, Entry::new(operation, None))
}

fn prepare_send(mode: Mode, data: Data, to: Destination, place: *mut Request) -> Result {
    let again = Persistent::Again;
    let (operation, how) = match (to.find(mode)?, mode) {
        (None, _) => (Operation::Nothing, again),
        (Some(_), Mode::Buffered) => {
            let send = Box::new(move || send_now(mode, data, to));
            (Operation::Nothing, Persistent::By(send))
        }
        (Some(to), _) => {
            let buffer = data.outgoing(mode)?;
            let request = mpi().world()?.prepare_send(buffer, to)?;
            (Operation::Library(request), again)
        }
    };
    mpi().give(place, Entry::new(operation, None).persistent(how))
}

/// Defines the functions of a mode.
macro_rules! sends {
    ($($now:ident, $begin:ident, $prepare:ident: $mode:ident;)*) => {$(
        #[inline]
        pub fn $now(
            at: *const c_void,
            count: i64,
            datatype: Datatype,
            rank: c_int,
            tag: c_int,
            comm: Comm,
        ) -> Result {
            let data = Data { at, count, datatype };
            send_now(Mode::$mode, data, Destination { rank, tag, comm })
        }

        pub fn $begin(
            at: *const c_void,
            count: i64,
            datatype: Datatype,
            rank: c_int,
            tag: c_int,
            comm: Comm,
            request: *mut Request,
        ) -> Result {
            let data = Data { at, count, datatype };
            begin_send(Mode::$mode, data, Destination { rank, tag, comm }, request)
        }

        pub fn $prepare(
            at: *const c_void,
            count: i64,
            datatype: Datatype,
            rank: c_int,
            tag: c_int,
            comm: Comm,
            request: *mut Request,
        ) -> Result {
            let data = Data { at, count, datatype };
            prepare_send(Mode::$mode, data, Destination { rank, tag, comm }, request)
        }
    )*};
}

sends! {
    send, isend, send_init: Standard;
    rsend, irsend, rsend_init: Standard;
    ssend, issend, ssend_init: Synchronous;
    bsend, ibsend, bsend_init: Buffered;
}

#[inline]
pub fn recv(
    at: *mut c_void,
    count: i64,
    datatype: Datatype,
    source: c_int,
    tag: c_int,
    comm: Comm,
    status: *mut Status,
) -> Result {
    let (from, finder) = with(comm, |comm| Ok((comm.from(source, tag)?, comm.finder())))?;
    let Some(from) = from else {
        put(status, from_nobody());
        return Ok(());
    };
    let room = incoming(at, count, datatype)?;
    let mut world = mpi().world()?;
    let mut request = world.start_receive(room, from)?;
    let ended = world.wait(&mut request)?;
    drop(world);
    put(status, Entry::library(request, Some(finder)).ended(&ended));
    truncated(&ended).map_or(Ok(()), Err)
}

pub fn irecv(
    at: *mut c_void,
    count: i64,
    datatype: Datatype,
    source: c_int,
    tag: c_int,
    comm: Comm,
    place: *mut Request,
) -> Result {
    let (from, finder) = with(comm, |comm| Ok((comm.from(source, tag)?, comm.finder())))?;
    let operation = match from {
        None => Operation::Nothing,
        Some(from) => {
            let room = incoming(at, count, datatype)?;
            Operation::Library(mpi().world()?.start_receive(room, from)?)
        }
    };
    mpi().give(place, Entry::new(operation, Some(finder)))
}

pub fn recv_init(
    at: *mut c_void,
    count: i64,
    datatype: Datatype,
    source: c_int,
    tag: c_int,
    comm: Comm,
    place: *mut Request,
) -> Result {
    let (from, finder) = with(comm, |comm| Ok((comm.from(source, tag)?, comm.finder())))?;
    let operation = match from {
        None => Operation::Nothing,
        Some(from) => {
            let room = incoming(at, count, datatype)?;
            Operation::Library(mpi().world()?.prepare_receive(room, from)?)
        }
    };
    let entry = Entry::new(operation, Some(finder));
    mpi().give(place, entry.persistent(Persistent::Again))
}

pub fn sendrecv(
    data: *const c_void,
    data_count: i64,
    data_type: Datatype,
    dest: c_int,
    dest_tag: c_int,
    room: *mut c_void,
    room_count: i64,
    room_type: Datatype,
    source: c_int,
    source_tag: c_int,
    comm: Comm,
    status: *mut Status,
) -> Result {
    let mut requests = [abi::REQUEST_NULL; 2];
    irecv(
        room,
        room_count,
        room_type,
        source,
        source_tag,
        comm,
        &mut requests[0],
    )?;
    isend(
        data,
        data_count,
        data_type,
        dest,
        dest_tag,
        comm,
        &mut requests[1],
    )?;
    let mut statuses = [empty(); 2];
    let ended = super::requests::waitall(2, requests.as_mut_ptr(), statuses.as_mut_ptr());
    put(status, statuses[0]);
    match ended {
        Err(failure) if statuses[0].error != 0 => Err(crate::failure::Failure {
            code: statuses[0].error,
            ..failure
        }),
        ended => ended,
    }
}

pub fn isendrecv(
    data: *const c_void,
    data_count: i64,
    data_type: Datatype,
    dest: c_int,
    dest_tag: c_int,
    room: *mut c_void,
    room_count: i64,
    room_type: Datatype,
    source: c_int,
    source_tag: c_int,
    comm: Comm,
    request: *mut Request,
) -> Result {
    // The send ends by itself: its data is copied, as the program has no request to wait for it.
    let mut send = abi::REQUEST_NULL;
    irecv(
        room, room_count, room_type, source, source_tag, comm, request,
    )?;
    isend(data, data_count, data_type, dest, dest_tag, comm, &mut send)?;
    super::requests::request_free(&mut send)
}

pub fn sendrecv_replace(
    at: *mut c_void,
    count: i64,
    datatype: Datatype,
    dest: c_int,
    dest_tag: c_int,
    source: c_int,
    source_tag: c_int,
    comm: Comm,
    status: *mut Status,
) -> Result {
    let data = Data {
        at,
        count,
        datatype,
    };
    let to = Destination {
        rank: dest,
        tag: dest_tag,
        comm,
    };
    send_now_from_copy(data, to)?;
    recv(at, count, datatype, source, source_tag, comm, status)
}

pub fn isendrecv_replace(
    at: *mut c_void,
    count: i64,
    datatype: Datatype,
    dest: c_int,
    dest_tag: c_int,
    source: c_int,
    source_tag: c_int,
    comm: Comm,
    request: *mut Request,
) -> Result {
    let data = Data {
        at,
        count,
        datatype,
    };
    let to = Destination {
        rank: dest,
        tag: dest_tag,
        comm,
    };
    send_now_from_copy(data, to)?;
    irecv(at, count, datatype, source, source_tag, comm, request)
}

/// Sends; what is not sent yet continues from a copy.
fn send_now_from_copy(data: Data, to: Destination) -> Result {
    let Some(to) = to.find(Mode::Standard)? else {
        return Ok(());
    };
    let buffer = data.outgoing(Mode::Standard)?;
    let mut world = mpi().world()?;
    let mut request = world.start_send(buffer, to)?;
    Ok(world.free(&mut request)?)
}
