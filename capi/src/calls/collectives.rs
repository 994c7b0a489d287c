//! Collectives, and persistent requests.

#![allow(unsafe_code, reason = "functions for C, which lends its buffers")]

use super::super::border;
use super::super::collective::Description;
use super::super::failure::{Code, Failure};
use super::super::memory::{Array, Out};
use super::super::present::{self, WorldHandle};
use super::operate;
use core::ffi::c_int;
use refrain::collective::Collective;
use refrain::{Error, Request, World};

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_do(world: *mut WorldHandle, collective: Description) -> c_int {
    border::call(|| {
        present::with(world, |program| {
            // SAFETY: as the header asks of the caller.
            unsafe { collective.with(program.ready()?, World::collective) }
        })
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_begin(
    world: *mut WorldHandle,
    collective: Description,
    request: *mut Request,
) -> c_int {
    // SAFETY: as the header asks of the caller, until the request has ended.
    border::call(|| unsafe {
        request_of(world, collective, request, |world, it| {
            world.start_collective(it)
        })
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_prepare(
    world: *mut WorldHandle,
    collective: Description,
    request: *mut Request,
) -> c_int {
    // SAFETY: as the header asks of the caller, while the request is active.
    border::call(|| unsafe {
        request_of(world, collective, request, |world, it| {
            world.prepare_collective(it)
        })
    })
}

/// # Safety
/// As [`Description::with`] and [`Out`].
unsafe fn request_of(
    world: *mut WorldHandle,
    collective: Description,
    request: *mut Request,
    make: impl FnOnce(&mut World, Collective<'_>) -> Result<Request, Error>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let mut out = unsafe { Out::required("request", request) }?;
    out.set(present::with(world, |program| {
        // SAFETY: likewise.
        unsafe { collective.with(program.ready()?, make) }
    })?);
    Ok(())
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_start(world: *mut WorldHandle, request: *mut Request) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut request = unsafe { Array::required("request", request, 1) }?;
        operate(world, |world| world.start(request.values()[0]))
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_free(world: *mut WorldHandle, request: *mut Request) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut request = unsafe { Array::required("request", request, 1) }?;
        let request = &mut request.values()[0];
        present::with(world, |program| {
            let world = program.ready()?;
            if world.is_active(*request) {
                let why = "refrain_free: the request is active: wait for it first";
                return Err(Failure::new(Code::Open, why));
            }
            Ok(world.free(request)?)
        })
    })
}
