//! Blocking sends and receives.

#![allow(unsafe_code, reason = "functions for C, which lends its buffers")]

use super::super::border;
use super::super::failure::Failure;
use super::super::memory::{Out, incoming, outgoing};
use super::super::present::{self, WorldHandle};
use super::super::status::Status;
use super::{destination, operate, source};
use core::ffi::{c_int, c_void};
use refrain::Error;

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_send(
    world: *mut WorldHandle,
    data: *const c_void,
    bytes: usize,
    to: c_int,
    tag: c_int,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let data = unsafe { outgoing(data, bytes) }?;
        let to = destination(to, tag)?;
        operate(world, |world| world.send(data, to))
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_ssend(
    world: *mut WorldHandle,
    data: *const c_void,
    bytes: usize,
    to: c_int,
    tag: c_int,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let data = unsafe { outgoing(data, bytes) }?;
        let to = destination(to, tag)?;
        operate(world, |world| world.ssend(data, to))
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_recv(
    world: *mut WorldHandle,
    buffer: *mut c_void,
    bytes: usize,
    from: c_int,
    tag: c_int,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let room = unsafe { incoming(buffer, bytes) }?;
        // SAFETY: as the header asks of the caller.
        let out = unsafe { Out::optional("status", status) }?;
        let from = source(from, tag)?;
        present::with(world, |program| {
            set_status(program.ready()?.recv(room, from), out)
        })
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_sendrecv(
    world: *mut WorldHandle,
    data: *const c_void,
    data_bytes: usize,
    to: c_int,
    to_tag: c_int,
    buffer: *mut c_void,
    buffer_bytes: usize,
    from: c_int,
    from_tag: c_int,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let data = unsafe { outgoing(data, data_bytes) }?;
        // SAFETY: likewise.
        let room = unsafe { incoming(buffer, buffer_bytes) }?;
        // SAFETY: likewise.
        let out = unsafe { Out::optional("status", status) }?;
        let (to, from) = (destination(to, to_tag)?, source(from, from_tag)?);
        present::with(world, |program| {
            set_status(program.ready()?.sendrecv(data, to, room, from), out)
        })
    })
}

/// Writes the status, also that of a truncated message.
pub(super) fn set_status(
    received: Result<refrain::Status, Error>,
    mut out: Out<Status>,
) -> Result<(), Failure> {
    let status = match &received {
        Ok(status) => Some((*status).into()),
        Err(error) => Status::of_truncated(error),
    };
    if let Some(status) = status {
        out.set(status);
    }
    Ok(received.map(drop)?)
}
