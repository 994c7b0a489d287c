//! Calls on several requests.

#![allow(unsafe_code, reason = "functions for C, which lends its arrays")]

use super::super::border;
use super::super::failure::{Failure, whole};
use super::super::memory::{Array, Out};
use super::super::present::{self, WorldHandle};
use super::super::status::Status;
use super::operate;
use core::ffi::c_int;
use refrain::{Ended, Error, Request, World};

/// `REFRAIN_NONE`
const NONE: usize = usize::MAX;

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_wait_any(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Request,
    index: *mut usize,
    status: *mut Status,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    border::call(|| unsafe { end_any(world, count, requests, index, status, World::wait_any) })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_test_any(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Request,
    index: *mut usize,
    status: *mut Status,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    border::call(|| unsafe { end_any(world, count, requests, index, status, World::test_any) })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_wait_some(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Request,
    ended: *mut usize,
    indices: *mut usize,
    statuses: *mut Status,
) -> c_int {
    let call = World::wait_some;
    // SAFETY: as the header asks of the caller.
    border::call(|| unsafe { end_some(world, count, requests, ended, indices, statuses, call) })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_test_some(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Request,
    ended: *mut usize,
    indices: *mut usize,
    statuses: *mut Status,
) -> c_int {
    let call = World::test_some;
    // SAFETY: as the header asks of the caller.
    border::call(|| unsafe { end_some(world, count, requests, ended, indices, statuses, call) })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_wait_all(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Request,
    statuses: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut requests = unsafe { Array::required("requests", requests, count) }?;
        // SAFETY: likewise.
        let mut out = unsafe { Array::optional("statuses", statuses, count) }?;
        present::with(world, |program| {
            let (world, ended) = program.ready_for(count)?;
            world.wait_all(requests.values(), ended)?;
            set_all(&mut out, ended)
        })
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_test_all(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Request,
    done: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut requests = unsafe { Array::required("requests", requests, count) }?;
        // SAFETY: likewise.
        let mut out = unsafe { Array::optional("statuses", statuses, count) }?;
        // SAFETY: likewise.
        let mut is_done = unsafe { Out::required("done", done) }?;
        present::with(world, |program| {
            let (world, ended) = program.ready_for(count)?;
            let have_ended = world.test_all(requests.values(), ended)?;
            is_done.set(have_ended.into());
            match have_ended {
                true => set_all(&mut out, ended),
                false => Ok(()),
            }
        })
    })
}

/// Writes all statuses; then fails for the first truncated message.
fn set_all(out: &mut Array<Status>, ended: &[Ended]) -> Result<(), Failure> {
    for (place, ended) in ended.iter().enumerate() {
        out.set(place, ended.into());
    }
    ended.iter().try_for_each(whole)
}

/// Body of the calls that end one of several requests.
///
/// # Safety
/// As those of [`Array`] and [`Out`].
unsafe fn end_any(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Request,
    index: *mut usize,
    status: *mut Status,
    call: impl FnOnce(&mut World, &mut [Request]) -> Result<Option<Ended>, Error>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let mut requests = unsafe { Array::required("requests", requests, count) }?;
    // SAFETY: likewise.
    let mut index = unsafe { Out::required("index", index) }?;
    // SAFETY: likewise.
    let mut status = unsafe { Out::optional("status", status) }?;
    index.set(NONE);
    let Some(ended) = operate(world, |world| call(world, requests.values()))? else {
        return Ok(());
    };
    index.set(ended.index);
    status.set((&ended).into());
    whole(&ended)
}

/// Body of the calls that end some of several requests.
///
/// # Safety
/// As those of [`Array`] and [`Out`].
unsafe fn end_some(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Request,
    ended: *mut usize,
    indices: *mut usize,
    statuses: *mut Status,
    call: impl FnOnce(&mut World, &mut [Request], &mut [Ended]) -> Result<usize, Error>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let mut requests = unsafe { Array::required("requests", requests, count) }?;
    // SAFETY: likewise.
    let mut ended_count = unsafe { Out::required("ended", ended) }?;
    // SAFETY: likewise.
    let mut indices = unsafe { Array::required("indices", indices, count) }?;
    // SAFETY: likewise.
    let mut statuses = unsafe { Array::optional("statuses", statuses, count) }?;
    ended_count.set(0);
    present::with(world, |program| {
        let (world, ended) = program.ready_for(count)?;
        let count = call(world, requests.values(), ended)?;
        ended_count.set(count);
        for (place, ended) in ended[..count].iter().enumerate() {
            indices.set(place, ended.index);
        }
        set_all(&mut statuses, &ended[..count])
    })
}
