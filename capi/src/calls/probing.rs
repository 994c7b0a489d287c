//! Probes, and receives of messages that matched probes have taken.

#![allow(unsafe_code, reason = "functions for C, which lends its buffers")]

use super::super::border;
use super::super::memory::{Array, Out, incoming};
use super::super::present::{self, WorldHandle};
use super::super::status::Status;
use super::blocking::set_status;
use super::{operate, source};
use core::ffi::{c_int, c_void};
use refrain::{MessageHandle, Request};

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_probe(
    world: *mut WorldHandle,
    from: c_int,
    tag: c_int,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut out = unsafe { Out::optional("status", status) }?;
        let from = source(from, tag)?;
        let found = operate(world, |world| world.probe(from))?;
        out.set(found.into());
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_iprobe(
    world: *mut WorldHandle,
    from: c_int,
    tag: c_int,
    found: *mut c_int,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut is_there = unsafe { Out::required("found", found) }?;
        // SAFETY: likewise.
        let mut out = unsafe { Out::optional("status", status) }?;
        let from = source(from, tag)?;
        let found = operate(world, |world| world.iprobe(from))?;
        is_there.set(found.is_some().into());
        if let Some(status) = found {
            out.set(status.into());
        }
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_mprobe(
    world: *mut WorldHandle,
    from: c_int,
    tag: c_int,
    message: *mut MessageHandle,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut place = unsafe { Out::required("message", message) }?;
        // SAFETY: likewise.
        let mut out = unsafe { Out::optional("status", status) }?;
        let from = source(from, tag)?;
        let (handle, status) = operate(world, |world| {
            let message = world.mprobe(from)?;
            let status = message.status;
            Ok((world.keep(message), status))
        })?;
        place.set(handle);
        out.set(status.into());
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_improbe(
    world: *mut WorldHandle,
    from: c_int,
    tag: c_int,
    found: *mut c_int,
    message: *mut MessageHandle,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut place = unsafe { Out::required("message", message) }?;
        // SAFETY: likewise.
        let mut out = unsafe { Out::optional("status", status) }?;
        // SAFETY: likewise.
        let mut is_there = unsafe { Out::required("found", found) }?;
        let from = source(from, tag)?;
        let taken = operate(world, |world| {
            let message = world.improbe(from)?;
            Ok(message.map(|message| {
                let status = message.status;
                (world.keep(message), status)
            }))
        })?;
        is_there.set(taken.is_some().into());
        if let Some((handle, status)) = taken {
            place.set(handle);
            out.set(status.into());
        }
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_mrecv(
    world: *mut WorldHandle,
    buffer: *mut c_void,
    bytes: usize,
    message: *mut MessageHandle,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let room = unsafe { incoming(buffer, bytes) }?;
        // SAFETY: likewise.
        let out = unsafe { Out::optional("status", status) }?;
        // SAFETY: likewise.
        let mut place = unsafe { Array::required("message", message, 1) }?;
        present::with(world, |program| {
            let message = program.take(place.values()[0])?;
            place.set(0, MessageHandle::default());
            set_status(program.ready()?.mrecv(room, message), out)
        })
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_imrecv(
    world: *mut WorldHandle,
    buffer: *mut c_void,
    bytes: usize,
    message: *mut MessageHandle,
    request: *mut Request,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let room = unsafe { incoming(buffer, bytes) }?;
        // SAFETY: likewise.
        let mut begun = unsafe { Out::required("request", request) }?;
        // SAFETY: likewise.
        let mut place = unsafe { Array::required("message", message, 1) }?;
        present::with(world, |program| {
            let message = program.take(place.values()[0])?;
            place.set(0, MessageHandle::default());
            begun.set(program.ready()?.start_matched_receive(room, message));
            Ok(())
        })
    })
}
