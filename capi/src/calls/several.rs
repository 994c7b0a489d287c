//! Several requests at once.

#![allow(unsafe_code, reason = "functions for C, which lends its arrays")]

use super::super::border;
use super::super::failure::{Failure, whole};
use super::super::memory::{Array, Out};
use super::super::present::{self, WorldHandle};
use super::super::program::Program;
use super::super::status::Status;
use core::ffi::c_int;
use refrain::{Ended, Request};

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
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let places = unsafe { Any::new(count, requests, index, status) }?;
        places.end(world, |program, requests| {
            Ok(program.ready()?.wait_any(requests)?)
        })
    })
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
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let places = unsafe { Any::new(count, requests, index, status) }?;
        places.end(world, |program, requests| {
            Ok(program.ready()?.test_any(requests)?)
        })
    })
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
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let places = unsafe { Ends::new(count, requests, ended, indices, statuses) }?;
        places.end(world, |program, requests| {
            let (world, ended) = program.ready_for(requests.len())?;
            let count = world.wait_some(requests, ended)?;
            Ok(&ended[..count])
        })
    })
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
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let places = unsafe { Ends::new(count, requests, ended, indices, statuses) }?;
        places.end(world, |program, requests| {
            let (world, ended) = program.ready_for(requests.len())?;
            let count = world.test_some(requests, ended)?;
            Ok(&ended[..count])
        })
    })
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
        let (mut requests, mut out) = unsafe {
            (
                Array::required("requests", requests, count)?,
                Array::optional("statuses", statuses, count)?,
            )
        };
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
        let (mut requests, mut out) = unsafe {
            (
                Array::required("requests", requests, count)?,
                Array::optional("statuses", statuses, count)?,
            )
        };
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

/// All statuses; then a failure for the first message that was too long.
fn set_all(out: &mut Array<Status>, ended: &[Ended]) -> Result<(), Failure> {
    for (place, ended) in ended.iter().enumerate() {
        out.set(place, ended.into());
    }
    ended.iter().try_for_each(whole)
}

/// What the calls that end one of several requests are given.
struct Any {
    requests: Array<Request>,
    index: Out<usize>,
    status: Out<Status>,
}

impl Any {
    /// # Safety
    /// As those of [`Array`] and [`Out`].
    unsafe fn new(
        count: usize,
        requests: *mut Request,
        index: *mut usize,
        status: *mut Status,
    ) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        unsafe {
            Ok(Self {
                requests: Array::required("requests", requests, count)?,
                index: Out::required("index", index)?,
                status: Out::optional("status", status)?,
            })
        }
    }

    fn end(
        mut self,
        world: *mut WorldHandle,
        call: impl FnOnce(&mut Program, &mut [Request]) -> Result<Option<Ended>, Failure>,
    ) -> Result<(), Failure> {
        self.index.set(NONE);
        present::with(world, |program| {
            let Some(ended) = call(program, self.requests.values())? else {
                return Ok(());
            };
            self.index.set(ended.index);
            self.status.set((&ended).into());
            whole(&ended)
        })
    }
}

/// What the calls that end some of several requests are given.
struct Ends {
    requests: Array<Request>,
    ended: Out<usize>,
    indices: Array<usize>,
    statuses: Array<Status>,
}

impl Ends {
    /// # Safety
    /// As those of [`Array`] and [`Out`].
    unsafe fn new(
        count: usize,
        requests: *mut Request,
        ended: *mut usize,
        indices: *mut usize,
        statuses: *mut Status,
    ) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        unsafe {
            Ok(Self {
                requests: Array::required("requests", requests, count)?,
                ended: Out::required("ended", ended)?,
                indices: Array::required("indices", indices, count)?,
                statuses: Array::optional("statuses", statuses, count)?,
            })
        }
    }

    fn end(
        mut self,
        world: *mut WorldHandle,
        call: impl for<'a> FnOnce(&'a mut Program, &mut [Request]) -> Result<&'a [Ended], Failure>,
    ) -> Result<(), Failure> {
        self.ended.set(0);
        present::with(world, |program| {
            let ended = call(program, self.requests.values())?;
            self.ended.set(ended.len());
            for (place, ended) in ended.iter().enumerate() {
                self.indices.set(place, ended.index);
            }
            set_all(&mut self.statuses, ended)
        })
    }
}
