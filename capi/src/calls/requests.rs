//! Requests, one at a time.

#![allow(unsafe_code, reason = "functions for C, which lends its buffers")]

use super::super::border;
use super::super::memory::{Array, Out, incoming, outgoing};
use super::super::present::{self, WorldHandle};
use super::super::status::Status;
use super::blocking::told;
use super::{destination, source};
use core::ffi::{c_int, c_void};
use refrain::Request;

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
        // SAFETY: as the header asks of the caller.
        let (data, mut out) =
            unsafe { (outgoing(data, bytes)?, Out::required("request", request)?) };
        let to = destination(to, tag)?;
        present::with(world, |program| {
            out.set(program.ready()?.start_send(data, to)?);
            Ok(())
        })
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
        // SAFETY: as the header asks of the caller.
        let (data, mut out) =
            unsafe { (outgoing(data, bytes)?, Out::required("request", request)?) };
        let to = destination(to, tag)?.synchronous();
        present::with(world, |program| {
            out.set(program.ready()?.start_send(data, to)?);
            Ok(())
        })
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
        let (room, mut out) =
            unsafe { (incoming(buffer, bytes)?, Out::required("request", request)?) };
        let from = source(from, tag)?;
        present::with(world, |program| {
            out.set(program.ready()?.start_receive(room, from)?);
            Ok(())
        })
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_cancel(world: *mut WorldHandle, request: *mut Request) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut request = unsafe { Array::required("request", request, 1) }?;
        present::with(world, |program| {
            Ok(program.ready()?.cancel(request.values()[0])?)
        })
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
        let (mut request, out) = unsafe {
            (
                Array::required("request", request, 1)?,
                Out::optional("status", status)?,
            )
        };
        present::with(world, |program| {
            let ended = program.ready()?.wait(&mut request.values()[0])?;
            told(ended.status(), out)
        })
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
        let (mut request, mut is_done) = unsafe {
            (
                Array::required("request", request, 1)?,
                Out::required("done", done)?,
            )
        };
        // SAFETY: likewise.
        let out = unsafe { Out::optional("status", status) }?;
        present::with(world, |program| {
            let ended = program.ready()?.test(&mut request.values()[0])?;
            is_done.set(ended.is_some().into());
            ended.map_or(Ok(()), |ended| told(ended.status(), out))
        })
    })
}
