//! Waiting, testing, starting, cancelling (MPI-5.0, sections 3.7 to 3.9).

#![allow(unsafe_code, reason = "reads and writes lists of the program")]

use super::active::{Active, complete_cancelled};
use crate::abi::{Request, Status, list, list_mut, put, put_status};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::request::{
    CANCELLED_TESTS, Entry, Operation, Persistent, Progress, count_of, empty, truncated,
};
use crate::state::mpi;
use core::ffi::c_int;
use refrain::Ended;

/// Takes what has ended of a request with parts.
pub fn take_ended(request: Request) -> Result {
    Active::with_enough(&[request], Active::are_over, false).map(drop)
}

/// Ends a request: it becomes null or inactive. Returns its status, and its error. `ended`: what
/// the library has just said.
#[inline]
fn end(request: &mut Request, ended: Option<&Ended>) -> Result<(Status, Option<Failure>)> {
    let mut known = mpi().requests.borrow_mut();
    let entry = known.get_mut(*request)?;
    if entry.rare().is_some()
        && let Some(then) = &mut entry.rare_mut().then
    {
        then()?;
    }
    if let Operation::General(general) = &entry.operation {
        let general = **general;
        known.end(request);
        drop(known);
        let status = general.status();
        general.free()?;
        return Ok((status?, None));
    }
    let status = match ended {
        Some(ended) => entry.ended(ended),
        None => entry.status(),
    };
    let failure = ended.or(entry.over()).and_then(truncated);
    known.end(request);
    Ok((status, failure))
}

fn write_all_empty(statuses: &mut [Status]) {
    statuses.fill(empty());
}

/// Waits for a request and ends it, as [`end`]. `None`: it is null or inactive.
#[inline]
fn wait_for(request: &mut Request) -> Result<Option<(Status, Option<Failure>)>> {
    let known = mpi().requests.borrow();
    let Some(progress) = known.active(*request)?.map(Entry::progress) else {
        return Ok(None);
    };
    drop(known);
    let ended = match progress {
        Progress::Pending(mut library) => Some(mpi().world()?.wait_held(&mut library)?),
        Progress::Over => None,
        Progress::InParts(_) | Progress::Program => {
            Active::with_enough(&[*request], Active::are_over, true)?;
            None
        }
    };
    end(request, ended.as_ref()).map(Some)
}

pub fn wait(request: *mut Request, status: *mut Status) -> Result {
    // SAFETY: the standard asks the program for a request.
    let request = unsafe { &mut *request };
    if mpi().cancels_sends.get() {
        complete_cancelled(&[*request], true)?;
    }
    let Some((of, failure)) = wait_for(request)? else {
        put(status, empty());
        return Ok(());
    };
    put_status(status, of);
    failure.map_or(Ok(()), Err)
}

pub fn test(request: *mut Request, flag: *mut c_int, status: *mut Status) -> Result {
    put(flag, 0);
    // SAFETY: as for `wait`.
    let request = unsafe { &mut *request };
    if mpi().cancels_sends.get() {
        complete_cancelled(&[*request], false)?;
    }
    let Some(progress) = mpi()
        .requests
        .borrow()
        .active(*request)?
        .map(|it| it.progress())
    else {
        put(flag, 1);
        put(status, empty());
        return Ok(());
    };
    let ended = match progress {
        Progress::Pending(mut library) => match mpi().world()?.test_held(&mut library)? {
            None => return Ok(()),
            ended => ended,
        },
        Progress::Over => None,
        Progress::InParts(_) | Progress::Program => {
            let active = Active::with_enough(&[*request], Active::are_over, false)?;
            if !active.are_over() {
                return Ok(());
            }
            None
        }
    };
    put(flag, 1);
    end_single(request, ended, status)
}

/// The end of a call on one request.
fn end_single(request: &mut Request, ended: Option<Ended>, status: *mut Status) -> Result {
    let (of, failure) = end(request, ended.as_ref())?;
    put_status(status, of);
    failure.map_or(Ok(()), Err)
}

/// Ends the requests of a call that are over, writes their statuses by place, and reports errors.
fn end_all(requests: &mut [Request], statuses: &mut [Status], active: &Active) -> Result {
    let mut failed = None;
    let over = active.places.iter().zip(&active.ended);
    let over = over.map(|((place, _), ended)| (*place, Some(ended)));
    let nothing = active.over.iter().map(|place| (*place, None));
    for (place, ended) in over.chain(nothing) {
        let (status, failure) = end(&mut requests[place], ended)?;
        failed = failed.or(failure);
        if let Some(of) = statuses.get_mut(place) {
            *of = status;
        }
    }
    several(failed)
}

/// The error of a call on several requests: the statuses say which ones failed.
fn several(failed: Option<Failure>) -> Result {
    match failed {
        Some(failure) => Err(Failure {
            code: abi::ERR_IN_STATUS,
            ..failure
        }),
        None => Ok(()),
    }
}

pub fn waitall(number: c_int, requests: *mut Request, statuses: *mut Status) -> Result {
    let number = count_of(number, requests)?;
    // SAFETY: the standard asks the program for lists of this length.
    let (requests, statuses) = unsafe { (list_mut(requests, number), list_mut(statuses, number)) };
    if mpi().cancels_sends.get() {
        complete_cancelled(requests, true)?;
    }
    let mut failed = None;
    let mut place = 0;
    // One after the other: the order of waits that all must end is no event.
    loop {
        place = end_those_here(requests, statuses, place, &mut failed);
        let Some(request) = requests.get_mut(place) else {
            return several(failed);
        };
        let (of, failure) = wait_for(request)?.unwrap_or((empty(), None));
        if let Some(status) = statuses.get_mut(place) {
            *status = of;
        }
        failed = failed.or(failure);
        place += 1;
    }
}

/// Ends the requests from a place on, as long as they need no wait: null, sends that are complete, and
/// receives whose message is here. Returns the place of the first other one.
#[expect(
    clippy::needless_range_loop,
    reason = "iterators over both lists take more instructions"
)]
fn end_those_here(
    requests: &mut [Request],
    statuses: &mut [Status],
    from: usize,
    failed: &mut Option<Failure>,
) -> usize {
    let Some(mut world) = mpi().idle_world() else {
        return from;
    };
    let mut known = mpi().requests.borrow_mut();
    for place in from..requests.len() {
        let (request, status) = (&mut requests[place], statuses.get_mut(place));
        if *request == abi::REQUEST_NULL || known.is_sent(*request) {
            *request = abi::REQUEST_NULL;
            if let Some(status) = status {
                *status = empty();
            }
            continue;
        }
        let see = |it: &Entry, ended: &Ended| {
            if let Some(status) = status {
                *status = it.ended(ended);
            }
            if ended.truncated_to.is_some() && failed.is_none() {
                *failed = truncated(ended);
            }
        };
        if !known.end_received(request, &mut world, see) {
            return place;
        }
    }
    requests.len()
}

pub fn testall(
    number: c_int,
    requests: *mut Request,
    flag: *mut c_int,
    statuses: *mut Status,
) -> Result {
    let number = count_of(number, requests)?;
    // SAFETY: as for `waitall`.
    let (requests, statuses) = unsafe { (list_mut(requests, number), list_mut(statuses, number)) };
    let mut active = Active::of(requests, false)?;
    let library = &mut active.library;
    if active.is_compound {
        active = Active::with_enough(requests, Active::are_over, false)?;
        put(flag, active.are_over().into());
        if !active.are_over() {
            return Ok(());
        }
    } else if !library.is_empty() && !mpi().world()?.test_all_held(library, &mut active.ended)? {
        put(flag, 0);
        return Ok(());
    }
    put(flag, 1);
    write_all_empty(statuses);
    end_all(requests, statuses, &active)
}

/// Ends the request of a call that has ended first.
fn end_one(
    requests: &mut [Request],
    place: usize,
    ended: Option<Ended>,
    index: *mut c_int,
    status: *mut Status,
) -> Result {
    put(index, place as c_int);
    end_single(&mut requests[place], ended, status)
}

fn none_of(index: *mut c_int, status: *mut Status) {
    put(index, abi::UNDEFINED);
    put(status, empty());
}

pub fn waitany(
    number: c_int,
    requests: *mut Request,
    index: *mut c_int,
    status: *mut Status,
) -> Result {
    // SAFETY: as for `waitall`.
    let requests = unsafe { list_mut(requests, count_of(number, requests)?) };
    let mut active = Active::of(requests, true)?;
    if active.is_compound {
        active = Active::with_enough(requests, Active::is_one_over, true)?;
    }
    if active.is_empty() {
        none_of(index, status);
        return Ok(());
    }
    if let Some(place) = active.over.first() {
        return end_one(requests, *place, None, index, status);
    }
    let ended = mpi().world()?.wait_any_held(&mut active.library)?;
    let ended = ended.ok_or_else(|| Failure::new(abi::ERR_INTERN, "no request is active"))?;
    end_one(
        requests,
        active.places[ended.index].0,
        Some(ended),
        index,
        status,
    )
}

pub fn testany(
    number: c_int,
    requests: *mut Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> Result {
    // SAFETY: as for `waitall`.
    let requests = unsafe { list_mut(requests, count_of(number, requests)?) };
    let mut active = Active::of(requests, false)?;
    if active.is_compound {
        active = Active::with_enough(requests, Active::is_one_over, false)?;
    }
    put(flag, 1);
    if active.is_empty() {
        none_of(index, status);
        return Ok(());
    }
    if let Some(place) = active.over.first() {
        return end_one(requests, *place, None, index, status);
    }
    if active.is_compound {
        put(flag, 0);
        put(index, abi::UNDEFINED);
        return Ok(());
    }
    match mpi().world()?.test_any_held(&mut active.library)? {
        Some(ended) => end_one(
            requests,
            active.places[ended.index].0,
            Some(ended),
            index,
            status,
        ),
        None => {
            put(flag, 0);
            put(index, abi::UNDEFINED);
            Ok(())
        }
    }
}

pub fn waitsome(
    number: c_int,
    requests: *mut Request,
    ended_number: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> Result {
    some(number, requests, ended_number, indices, statuses, true)
}

pub fn testsome(
    number: c_int,
    requests: *mut Request,
    ended_number: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> Result {
    some(number, requests, ended_number, indices, statuses, false)
}

fn some(
    number: c_int,
    requests: *mut Request,
    ended_number: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
    waits: bool,
) -> Result {
    let number = count_of(number, requests)?;
    // SAFETY: as for `waitall`.
    let (requests, indices, statuses) = unsafe {
        (
            list_mut(requests, number),
            list_mut(indices, number),
            list_mut(statuses, number),
        )
    };
    let mut active = Active::of(requests, waits)?;
    if active.is_empty() {
        put(ended_number, abi::UNDEFINED);
        return Ok(());
    }
    if active.is_compound {
        active = Active::with_enough(requests, Active::is_one_over, waits)?;
    }
    let is_settled = active.is_compound;
    let library = &mut active.library;
    let ended = match (library.is_empty(), waits && active.over.is_empty()) {
        _ if is_settled => 0,
        (true, _) => 0,
        (false, true) => mpi().world()?.wait_some_held(library, &mut active.ended)?,
        (false, false) => mpi().world()?.test_some_held(library, &mut active.ended)?,
    };
    let over = active.ended[..ended].iter();
    let over = over.map(|ended| (active.places[ended.index].0, Some(ended)));
    let nothing = active.over.iter().map(|place| (*place, None));
    let (mut failed, mut at) = (None, 0);
    for (place, ended) in over.chain(nothing) {
        let (status, failure) = end(&mut requests[place], ended)?;
        failed = failed.or(failure);
        indices[at] = place as c_int;
        if let Some(of) = statuses.get_mut(at) {
            *of = status;
        }
        at += 1;
    }
    put(ended_number, at as c_int);
    several(failed)
}

pub fn request_free(request: *mut Request) -> Result {
    // SAFETY: as for `wait`.
    let request = unsafe { &mut *request };
    let mut requests = mpi().requests.borrow_mut();
    let entry = requests.get_mut(*request)?;
    if let Operation::General(general) = &entry.operation
        && !general.is_complete
    {
        // The program completes it later, and its free function is called then.
        entry.rare_mut().is_freed = true;
        *request = abi::REQUEST_NULL;
        return Ok(());
    }
    let entry = requests.remove(*request)?;
    *request = abi::REQUEST_NULL;
    let mut of_library = Vec::new();
    match entry.operation {
        Operation::Library(library) => of_library.push(library.handle()),
        Operation::Parts(mut parts) => of_library = parts.abandon(&mut *mpi().world()?),
        Operation::Nothing => {}
        Operation::General(general) => {
            drop(requests);
            return general.free();
        }
    }
    // They go on; their buffers belong to them until the program knows their end by other means.
    let under_way = of_library.into_iter().filter(|it| !it.is_null());
    requests.freed.extend(under_way);
    Ok(())
}

pub fn start(request: *mut Request) -> Result {
    // SAFETY: as for `wait`.
    let request = unsafe { *request };
    let mut requests = mpi().requests.borrow_mut();
    let entry = requests.get_mut(request)?;
    if entry.is_active {
        let why = match entry.rare().and_then(|it| it.persistent.as_ref()) {
            Some(_) => "the persistent request is active: wait for it first",
            None => "the request is not persistent",
        };
        return Err(Failure::new(abi::ERR_REQUEST, why));
    }
    if let Some(Persistent::By(send)) = &entry.rare_mut().persistent {
        send()?;
    } else {
        match &mut entry.operation {
            Operation::Library(library) => mpi().world()?.start_held(library)?,
            Operation::Parts(parts) => parts.start(&mut *mpi().world()?)?,
            Operation::Nothing | Operation::General(_) => {}
        }
    }
    entry.is_active = true;
    entry.rare_mut().tests_left = None;
    Ok(())
}

pub fn startall(number: c_int, requests: *mut Request) -> Result {
    // SAFETY: as for `waitall`.
    let requests = unsafe { list_mut(requests, count_of(number, requests)?) };
    requests.iter_mut().try_for_each(|request| start(request))
}

pub fn cancel(request: *mut Request) -> Result {
    // SAFETY: as for `wait`.
    let request = unsafe { *request };
    let mut requests = mpi().requests.borrow_mut();
    let entry = requests.get_mut(request)?;
    match &mut entry.operation {
        Operation::Library(library) if entry.source.is_some() => {
            mpi().world()?.cancel_held(library);
            Ok(())
        }
        Operation::Library(_) => {
            entry.rare_mut().tests_left = Some(CANCELLED_TESTS);
            mpi().cancels_sends.set(true);
            Ok(())
        }
        Operation::General(general) => {
            let general = **general;
            drop(requests);
            general.cancel()
        }
        // Too late to cancel.
        Operation::Nothing | Operation::Parts(_) => Ok(()),
    }
}

pub fn request_get_status(request: Request, flag: *mut c_int, status: *mut Status) -> Result {
    if !are_active(&[request])?[0] {
        put(flag, 1);
        put(status, empty());
        return Ok(());
    }
    let over = peek(&[request])?;
    put(flag, over[0].is_some().into());
    if let Some(of) = over[0] {
        put_status(status, of);
    }
    Ok(())
}

/// The statuses of requests that have ended; `None`: it has not. The requests stay, and remember how
/// they have ended.
fn peek(requests: &[Request]) -> Result<Vec<Option<Status>>> {
    let mut over = Vec::with_capacity(requests.len());
    for request in requests {
        if mpi().requests.borrow().active(*request)?.is_none() {
            over.push(Some(empty()));
            continue;
        }
        let active = Active::with_enough(&[*request], Active::are_over, false)?;
        if !active.are_over() {
            over.push(None);
            continue;
        }
        let known = mpi().requests.borrow();
        let entry = known.get(*request)?;
        over.push(Some(match &entry.operation {
            Operation::General(general) => {
                let general = **general;
                drop(known);
                general.status()?
            }
            _ => entry.status(),
        }));
    }
    Ok(over)
}

pub fn request_get_status_all(
    number: c_int,
    requests: *const Request,
    flag: *mut c_int,
    statuses: *mut Status,
) -> Result {
    let number = count_of(number, requests)?;
    // SAFETY: as for `waitall`.
    let (requests, statuses) = unsafe { (list(requests, number), list_mut(statuses, number)) };
    let over = peek(requests)?;
    let all: Option<Vec<Status>> = over.into_iter().collect();
    put(flag, all.is_some().into());
    for (place, status) in statuses.iter_mut().zip(all.into_iter().flatten()) {
        *place = status;
    }
    Ok(())
}

pub fn request_get_status_any(
    number: c_int,
    requests: *const Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> Result {
    // SAFETY: as for `waitall`.
    let requests = unsafe { list(requests, count_of(number, requests)?) };
    let is_active = are_active(requests)?;
    if !is_active.contains(&true) {
        put(flag, 1);
        none_of(index, status);
        return Ok(());
    }
    let over = peek(requests)?;
    let found = (over.iter().zip(is_active)).position(|(it, is_active)| is_active && it.is_some());
    put(flag, found.is_some().into());
    put(index, found.map_or(abi::UNDEFINED, |place| place as c_int));
    if let Some(of) = found.and_then(|place| over[place]) {
        put_status(status, of);
    }
    Ok(())
}

fn are_active(requests: &[Request]) -> Result<Vec<bool>> {
    let known = mpi().requests.borrow();
    let active = requests.iter().map(|it| Ok(known.active(*it)?.is_some()));
    active.collect()
}

pub fn request_get_status_some(
    number: c_int,
    requests: *const Request,
    ended_number: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> Result {
    let number = count_of(number, requests)?;
    // SAFETY: as for `waitall`.
    let (requests, indices, statuses) = unsafe {
        (
            list(requests, number),
            list_mut(indices, number),
            list_mut(statuses, number),
        )
    };
    let is_active = are_active(requests)?;
    if !is_active.contains(&true) {
        put(ended_number, abi::UNDEFINED);
        return Ok(());
    }
    let mut at = 0;
    for (place, status) in peek(requests)?.into_iter().enumerate() {
        let Some(status) = status.filter(|_| is_active[place]) else {
            continue;
        };
        indices[at] = place as c_int;
        if let Some(of) = statuses.get_mut(at) {
            *of = status;
        }
        at += 1;
    }
    put(ended_number, at as c_int);
    Ok(())
}
