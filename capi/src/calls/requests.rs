//! Requests, one at a time.

#![allow(unsafe_code, reason = "functions for C, which lends its buffers")]

use super::super::border;
use super::super::failure::Failure;
use super::super::memory::{Array, Out, incoming, outgoing};
use super::super::present::WorldHandle;
use super::super::status::Status;
use super::blocking::set_status;
use super::{destination, operate, source};
use core::ffi::{c_int, c_void};
use refrain::{Request, SendTo};

/// # Safety
/// As those of [`outgoing`] and [`Out`].
unsafe fn start_send(
    world: *mut WorldHandle,
    data: *const c_void,
    bytes: usize,
    to: SendTo,
    request: *mut Request,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let data = unsafe { outgoing(data, bytes) }?;
    // SAFETY: likewise.
    let mut out = unsafe { Out::required("request", request) }?;
    out.set(operate(world, |world| world.start_send(data, to))?);
    Ok(())
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_isend(
    world: *mut WorldHandle,
    data: *const c_void,
    bytes: usize,
    to: c_int,
    tag: c_int,
    request: *mut Request,
) -> c_int {
    border::call(|| {
        let to = destination(to, tag)?;
        // SAFETY: as the header asks of the caller.
        unsafe { start_send(world, data, bytes, to, request) }
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_issend(
    world: *mut WorldHandle,
    data: *const c_void,
    bytes: usize,
    to: c_int,
    tag: c_int,
    request: *mut Request,
) -> c_int {
    border::call(|| {
        let to = destination(to, tag)?.synchronous();
        // SAFETY: as the header asks of the caller.
        unsafe { start_send(world, data, bytes, to, request) }
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_irecv(
    world: *mut WorldHandle,
    buffer: *mut c_void,
    bytes: usize,
    from: c_int,
    tag: c_int,
    request: *mut Request,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let room = unsafe { incoming(buffer, bytes) }?;
        // SAFETY: likewise.
        let mut out = unsafe { Out::required("request", request) }?;
        let from = source(from, tag)?;
        out.set(operate(world, |world| world.start_receive(room, from))?);
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_cancel(world: *mut WorldHandle, request: *mut Request) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut request = unsafe { Array::required("request", request, 1) }?;
        operate(world, |world| world.cancel(request.values()[0]))
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_wait(
    world: *mut WorldHandle,
    request: *mut Request,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut request = unsafe { Array::required("request", request, 1) }?;
        // SAFETY: likewise.
        let out = unsafe { Out::optional("status", status) }?;
        let ended = operate(world, |world| world.wait(&mut request.values()[0]))?;
        set_status(ended.status(), out)
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_test(
    world: *mut WorldHandle,
    request: *mut Request,
    done: *mut c_int,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut request = unsafe { Array::required("request", request, 1) }?;
        // SAFETY: likewise.
        let mut is_done = unsafe { Out::required("done", done) }?;
        // SAFETY: likewise.
        let out = unsafe { Out::optional("status", status) }?;
        let ended = operate(world, |world| world.test(&mut request.values()[0]))?;
        is_done.set(ended.is_some().into());
        ended.map_or(Ok(()), |ended| set_status(ended.status(), out))
    })
}
