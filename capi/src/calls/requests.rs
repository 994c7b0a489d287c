//! Requests, one at a time.

#![allow(unsafe_code, reason = "functions for C, which lends its buffers")]

use super::super::border;
use super::super::failure::Failure;
use super::super::memory::{Array, Out, incoming, outgoing};
use super::super::present::{self, WorldHandle};
use super::super::program::Ended;
use super::super::status::Status;
use super::super::table::Handle;
use super::blocking::told;
use super::{destination, source};
use core::ffi::{c_int, c_void};
use refrain::{Request, Scope};

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_isend(
    world: *mut WorldHandle,
    data: *const c_void,
    bytes: usize,
    to: c_int,
    tag: c_int,
    request: *mut Handle,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let (data, mut out) =
            unsafe { (outgoing(data, bytes)?, Out::required("request", request)?) };
        let to = destination(to, tag)?;
        out.set(present::with(world, |program| {
            program.begin(|scope| scope.isend(data, to))
        })?);
        Ok(())
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
    request: *mut Handle,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let (data, mut out) =
            unsafe { (outgoing(data, bytes)?, Out::required("request", request)?) };
        let to = destination(to, tag)?;
        out.set(present::with(world, |program| {
            program.begin(|scope| scope.issend(data, to))
        })?);
        Ok(())
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
    request: *mut Handle,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let (room, mut out) =
            unsafe { (incoming(buffer, bytes)?, Out::required("request", request)?) };
        let from = source(from, tag)?;
        out.set(present::with(world, |program| {
            program.begin(|scope| scope.irecv(room, from))
        })?);
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_cancel(world: *mut WorldHandle, request: *mut Handle) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let request = unsafe { Array::required("request", request, 1) }?;
        Ok(on_one(world, request, |scope, request| {
            scope.cancel(request)
        })??)
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_wait(
    world: *mut WorldHandle,
    request: *mut Handle,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let (request, out) = unsafe {
            (
                Array::required("request", request, 1)?,
                Out::optional("status", status)?,
            )
        };
        let ended = on_one(world, request, |scope, request| {
            Ended::from(scope.wait(request))
        })?;
        told(ended, out)
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_test(
    world: *mut WorldHandle,
    request: *mut Handle,
    done: *mut c_int,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let (request, mut is_done) = unsafe {
            (
                Array::required("request", request, 1)?,
                Out::required("done", done)?,
            )
        };
        // SAFETY: likewise.
        let out = unsafe { Out::optional("status", status) }?;
        let answer = on_one(world, request, |scope, request| {
            scope
                .test(request)
                .transpose()
                .map(|ended| (Ended::from(ended), request.is_null()))
        })?;
        let Some((ended, is_over)) = answer else {
            is_done.set(0);
            return Ok(());
        };
        is_done.set(is_over.into());
        told(ended, out)
    })
}

fn on_one<T>(
    world: *mut WorldHandle,
    mut place: Array<Handle>,
    call: impl FnOnce(&mut Scope<'_, 'static>, &mut Request) -> T,
) -> Result<T, Failure> {
    let (result, handles) = present::with(world, |program| {
        program.on_requests(core::iter::once(place.first()), |scope, requests| {
            call(scope, &mut requests[0])
        })
    })?;
    place.set(0, handles[0]);
    Ok(result)
}
