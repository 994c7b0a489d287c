//! Messages between two ranks (MPI-5.0, chapter 3).

#![allow(unsafe_code, reason = "lends the program's buffers to the library")]

use super::types::{incoming, outgoing, usual_bytes};
use crate::abi::{Comm, Datatype, Request, Status, put_status};
use crate::communicator::Communicator;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::request::{Entry, Operation, Persistent, empty, from_proc_null, of_receive, truncated};
use crate::state::mpi;
use core::ffi::{c_int, c_void};
use refrain::{Bytes, Ended, Error, ReceiveBuffer, SendBuffer, SendTo, Source, from, to};

/// The mode of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Standard; also ready: the receive is there already, so nothing differs.
    Standard,
    Synchronous,
    /// Its end does not depend on the receiver.
    Buffered,
}

/// Maximum length of a message whose standard send is complete when the call returns. If the log has
/// no room, the engine sends it later from a copy.
const COPIED_BYTES_MAX: usize = 1024;

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
    fn outgoing(&self, mode: Mode, comm: Comm) -> Result<SendBuffer> {
        let buffer = outgoing(self.at, self.count, self.datatype)?;
        if mode == Mode::Buffered {
            super::buffering::check(&buffer, comm)?;
        }
        Ok(buffer)
    }
}

/// What a usual message is made of: of items one behind the other, to or from one rank.
///
/// The fast paths make buffers and envelopes of it in place. Those that are moved are read as a whole
/// right after their parts are written, and that waits until the processor has sent off the last
/// message.
struct Usual {
    peer: u32,
    context: u32,
    bytes: usize,
}

#[inline(always)]
fn usual(data: &Data, rank: c_int, tag: c_int, comm: Comm) -> Option<Usual> {
    let communicators = mpi().communicators.borrow();
    usual_of(data, rank, tag, communicators.get(comm).ok()?)
}

#[inline(always)]
fn usual_of(data: &Data, rank: c_int, tag: c_int, comm: &Communicator) -> Option<Usual> {
    let bytes = usual_bytes(data.at, data.count, data.datatype)?;
    let peer = comm.peers().get(rank as usize).filter(|_| tag >= 0)?;
    Some(Usual {
        peer: peer.0,
        context: comm.context,
        bytes,
    })
}

/// Sends, and returns when the data may be changed.
#[inline(always)]
fn send_now(mode: Mode, data: Data, at: Destination) -> Result {
    if mode == Mode::Standard
        && let Some(usual) = usual(&data, at.rank, at.tag, at.comm)
    {
        // SAFETY: the standard asks the program to leave the buffer alone until the end.
        let buffer = unsafe { SendBuffer::bytes(data.at.cast(), usual.bytes) };
        let to = to(usual.peer).tag(at.tag).context(usual.context);
        return Ok(mpi().world()?.send(buffer, to)?);
    }
    match at.find(mode)? {
        None => Ok(()),
        Some(to) => send_other(mode, data, at.comm, to),
    }
}

#[inline(never)]
fn send_other(mode: Mode, data: Data, comm: Comm, to: SendTo) -> Result {
    let buffer = data.outgoing(mode, comm)?;
    let mut world = mpi().world()?;
    if mode == Mode::Buffered {
        let send = world.begin_send(buffer, to)?.handle();
        // It continues from a copy.
        world.free_held(send);
        return Ok(());
    }
    Ok(world.send(buffer, to)?)
}

/// Begins a send that is not usual, or is long.
#[inline(never)]
fn begin_other(mode: Mode, data: Data, to: Destination, place: *mut Request) -> Result {
    match (to.find(mode)?, mode) {
        (None, _) => {}
        (Some(_), Mode::Buffered) => send_now(mode, data, to)?,
        (Some(found), _) => {
            let buffer = data.outgoing(mode, to.comm)?;
            let send = mpi().world()?.begin_send(buffer, found)?;
            return mpi().give(place, Entry::library(send, None));
        }
    }
    mpi().give_sent(place)
}

#[inline(always)]
fn begin_send(mode: Mode, data: Data, at: Destination, place: *mut Request) -> Result {
    let usual = match mode {
        Mode::Standard => usual(&data, at.rank, at.tag, at.comm),
        _ => None,
    };
    let Some(usual) = usual.filter(|usual| usual.bytes <= COPIED_BYTES_MAX) else {
        return begin_other(mode, data, at, place);
    };
    // SAFETY: the standard asks the program to leave the buffer alone until the end.
    let bytes = unsafe { Bytes::new(data.at.cast(), usual.bytes) };
    let to = to(usual.peer).tag(at.tag).context(usual.context);
    mpi().world()?.send_or_copy(bytes, to)?;
    mpi().give_sent(place)
}

fn prepare_send(mode: Mode, data: Data, to: Destination, place: *mut Request) -> Result {
    let again = Persistent::Again;
    let (operation, how) = match (to.find(mode)?, mode) {
        (None, _) => (Operation::Nothing, again),
        (Some(_), Mode::Buffered) => {
            let send = Box::new(move || send_now(mode, data, to));
            (Operation::Nothing, Persistent::By(send))
        }
        (Some(found), _) => {
            let buffer = data.outgoing(mode, to.comm)?;
            let send = mpi().world()?.hold_send(buffer, found)?;
            (Operation::Library(send), again)
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

#[inline(never)]
fn receive_other(room: ReceiveBuffer, from: Source) -> Result<core::result::Result<Ended, Error>> {
    Ok(mpi().world()?.receive(room, from))
}

pub fn recv(
    at: *mut c_void,
    count: i64,
    datatype: Datatype,
    source: c_int,
    tag: c_int,
    comm: Comm,
    status: *mut Status,
) -> Result {
    let data = Data {
        at,
        count,
        datatype,
    };
    let ended = match usual(&data, source, tag, comm) {
        Some(usual) => {
            // SAFETY: the standard asks the program to leave the buffer alone until the end.
            let room = unsafe { ReceiveBuffer::bytes(at.cast(), usual.bytes) };
            let from = from(usual.peer).tag(tag).context(usual.context);
            mpi().world()?.receive(room, from)
        }
        None => {
            let Some(from) = with(comm, |comm| comm.from(source, tag))? else {
                put_status(status, from_proc_null());
                return Ok(());
            };
            receive_other(incoming(at, count, datatype)?, from)?
        }
    };
    let ended = match &ended {
        Ok(ended) => ended,
        Err(_) => return ended.map(drop).map_err(Failure::from),
    };
    if !status.is_null() {
        let source = with(comm, |comm| Ok(comm.place(ended.status.source)))?;
        put_status(status, of_receive(source, ended));
    }
    match ended.truncated_to {
        None => Ok(()),
        Some(_) => truncated(ended).map_or(Ok(()), Err),
    }
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
    let data = Data {
        at,
        count,
        datatype,
    };
    let communicators = mpi().communicators.borrow();
    let known = communicators.get(comm)?;
    let Some(usual) = usual_of(&data, source, tag, known) else {
        return begin_other_receive(&data, source, tag, known, place);
    };
    // SAFETY: the standard asks the program to leave the buffer alone until the end.
    let room = || unsafe { ReceiveBuffer::bytes(at.cast(), usual.bytes) };
    let from = from(usual.peer).tag(tag).context(usual.context);
    let receive = mpi().world()?.begin_receive_into(room, from)?;
    mpi().give_made(place, || Entry::library(receive, Some(known.finder())))
}

/// Begins a receive that is not usual.
#[inline(never)]
fn begin_other_receive(
    data: &Data,
    source: c_int,
    tag: c_int,
    comm: &Communicator,
    place: *mut Request,
) -> Result {
    let operation = match comm.from(source, tag)? {
        None => Operation::Nothing,
        Some(from) => {
            let room = incoming(data.at.cast_mut(), data.count, data.datatype)?;
            Operation::Library(mpi().world()?.begin_receive(room, from)?)
        }
    };
    mpi().give(place, Entry::new(operation, Some(comm.finder())))
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
            Operation::Library(mpi().world()?.hold_receive(room, from)?)
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
    put_status(status, statuses[0]);
    match ended {
        Err(failure) if statuses[0].error != 0 => Err(Failure {
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

/// Longest copy that is kept for the next call.
const COPY_BYTES_MAX: usize = 64 << 20;

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
    if to.find(Mode::Standard)?.is_none() {
        return recv(at, count, datatype, source, source_tag, comm, status);
    }
    // The same memory again: new memory of this length costs more than the message.
    let mut copy = mpi().copy.take();
    let buffer = data.outgoing(Mode::Standard, comm)?;
    let bytes = buffer.message_bytes() as usize;
    if copy.len() < bytes {
        copy.resize(bytes, 0);
    }
    // SAFETY: the copy has this length, and stays until the send has ended; the data is the
    // program's until then.
    unsafe { buffer.copy_to(&ReceiveBuffer::bytes(copy.as_mut_ptr(), bytes)) };
    let done = sendrecv(
        copy.as_ptr().cast(),
        bytes as i64,
        abi::BYTE,
        dest,
        dest_tag,
        at,
        count,
        datatype,
        source,
        source_tag,
        comm,
        status,
    );
    match &done {
        Ok(()) if copy.len() <= COPY_BYTES_MAX => drop(mpi().copy.replace(copy)),
        Ok(()) => {}
        // The send may still read it.
        Err(_) => core::mem::forget(copy),
    }
    done
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
    let comm = to.comm;
    let Some(to) = to.find(Mode::Standard)? else {
        return Ok(());
    };
    let buffer = data.outgoing(Mode::Standard, comm)?;
    let mut world = mpi().world()?;
    let send = world.begin_send(buffer, to)?.handle();
    world.free_held(send);
    Ok(())
}
