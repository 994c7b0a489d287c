//! Several requests at once.

#![allow(unsafe_code, reason = "functions for C, which lends its arrays")]

use super::super::border;
use super::super::failure::Failure;
use super::super::memory::{Array, Out};
use super::super::present::{self, WorldHandle};
use super::super::status::Status;
use super::super::table::Handle;
use core::ffi::c_int;
use refrain::{Error, Request, Scope};

/// `REFRAIN_NONE`
const NONE: usize = usize::MAX;

type OneEnd = Result<Option<(usize, refrain::Status)>, Error>;
type SomeEnds = Result<Vec<(usize, refrain::Status)>, Error>;

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_wait_any(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Handle,
    index: *mut usize,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let places = unsafe { Any::new(count, requests, index, status) }?;
        places.end(world, |scope, requests| scope.wait_any(requests))
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_test_any(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Handle,
    index: *mut usize,
    status: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let places = unsafe { Any::new(count, requests, index, status) }?;
        places.end(world, |scope, requests| scope.test_any(requests))
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_wait_some(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Handle,
    ended: *mut usize,
    indices: *mut usize,
    statuses: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let places = unsafe { Ends::new(count, requests, ended, indices, statuses) }?;
        places.end(world, |scope, requests| scope.wait_some(requests))
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_test_some(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Handle,
    ended: *mut usize,
    indices: *mut usize,
    statuses: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let places = unsafe { Ends::new(count, requests, ended, indices, statuses) }?;
        places.end(world, |scope, requests| scope.test_some(requests))
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_wait_all(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Handle,
    statuses: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let (requests, mut out) = unsafe {
            (
                Array::required("requests", requests, count)?,
                Array::optional("statuses", statuses, count)?,
            )
        };
        let ended = on_all(world, requests, |scope, requests| scope.wait_all(requests))??;
        set_all(&mut out, &ended);
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_test_all(
    world: *mut WorldHandle,
    count: usize,
    requests: *mut Handle,
    done: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let (requests, mut out) = unsafe {
            (
                Array::required("requests", requests, count)?,
                Array::optional("statuses", statuses, count)?,
            )
        };
        // SAFETY: likewise.
        let mut is_done = unsafe { Out::required("done", done) }?;
        let ended = on_all(world, requests, |scope, requests| scope.test_all(requests))??;
        is_done.set(ended.is_some().into());
        set_all(&mut out, ended.as_deref().unwrap_or_default());
        Ok(())
    })
}

fn set_all(out: &mut Array<Status>, statuses: &[refrain::Status]) {
    for (index, status) in statuses.iter().enumerate() {
        out.set(index, (*status).into());
    }
}

fn on_all<T>(
    world: *mut WorldHandle,
    mut places: Array<Handle>,
    call: impl FnOnce(&mut Scope<'_, 'static>, &mut [Request]) -> T,
) -> Result<T, Failure> {
    let (result, handles) =
        present::with(world, |program| program.on_requests(places.read(), call))?;
    for (index, handle) in handles.into_iter().enumerate() {
        places.set(index, handle);
    }
    Ok(result)
}

/// What the calls that end one of several requests are given.
struct Any {
    requests: Array<Handle>,
    index: Out<usize>,
    status: Out<Status>,
}

impl Any {
    /// # Safety
    /// As those of [`Array`] and [`Out`].
    unsafe fn new(
        count: usize,
        requests: *mut Handle,
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
        call: impl FnOnce(&mut Scope<'_, 'static>, &mut [Request]) -> OneEnd,
    ) -> Result<(), Failure> {
        self.index.set(NONE);
        let (result, ended) = on_all(world, self.requests, |scope, requests| {
            let open: Vec<bool> = requests.iter().map(|request| !request.is_null()).collect();
            let result = call(scope, requests);
            let mut now = requests.iter().zip(open);
            // Also of one that failed.
            (
                result,
                now.position(|(request, was_open)| was_open && request.is_null()),
            )
        })?;
        if let Some(index) = ended {
            self.index.set(index);
        }
        match &result {
            Ok(Some((_, status))) => self.status.set((*status).into()),
            Ok(None) => {}
            Err(error) => {
                if let Some(status) = Status::of_truncated(error) {
                    self.status.set(status);
                }
            }
        }
        Ok(result.map(drop)?)
    }
}

/// What the calls that end some of several requests are given.
struct Ends {
    requests: Array<Handle>,
    ended: Out<usize>,
    indices: Array<usize>,
    statuses: Array<Status>,
}

impl Ends {
    /// # Safety
    /// As those of [`Array`] and [`Out`].
    unsafe fn new(
        count: usize,
        requests: *mut Handle,
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
        call: impl FnOnce(&mut Scope<'_, 'static>, &mut [Request]) -> SomeEnds,
    ) -> Result<(), Failure> {
        self.ended.set(0);
        let ended = on_all(world, self.requests, call)??;
        self.ended.set(ended.len());
        for (place, (index, status)) in ended.into_iter().enumerate() {
            self.indices.set(place, index);
            self.statuses.set(place, status.into());
        }
        Ok(())
    }
}
