//! Statuses (MPI-5.0, sections 3.2.5 and 3.8.4).

#![allow(unsafe_code, reason = "reads and writes statuses of the program")]

use crate::abi::{Datatype, Place, Status, put};
use crate::datatype::size_of_basic;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::state::mpi;
use core::ffi::c_int;

/// The status that the program has given.
fn read(status: *const Status) -> Result<Status> {
    match status.is_null() {
        true => Err(Failure::argument(
            "the status is MPI_STATUS_IGNORE: give a status",
        )),
        // SAFETY: the standard asks the program for a status.
        false => Ok(unsafe { *status }),
    }
}

fn change(status: *mut Status, change: impl FnOnce(&mut Status)) -> Result {
    let mut changed = read(status)?;
    change(&mut changed);
    put(status, changed);
    Ok(())
}

pub fn get_count(status: *const Status, datatype: Datatype, count: Place) -> Result {
    let bytes = read(status)?.bytes() as i64;
    let size = match size_of_basic(datatype) {
        0 => mpi().types.borrow().get(datatype)?.of.size(),
        size => size,
    };
    count.set(match size {
        0 if bytes == 0 => 0,
        0 => abi::UNDEFINED.into(),
        size if bytes % size == 0 => bytes / size,
        _ => abi::UNDEFINED.into(),
    });
    Ok(())
}

pub fn get_elements(status: *const Status, datatype: Datatype, count: Place) -> Result {
    let bytes = read(status)?.bytes() as i64;
    let types = mpi().types.borrow();
    let elements = types.get(datatype)?.of.elements(bytes);
    count.set(match elements {
        Some(elements) if elements.left_bytes == 0 => elements.whole,
        _ => abi::UNDEFINED.into(),
    });
    Ok(())
}

pub fn get_elements_x(status: *const Status, datatype: Datatype, count: *mut i64) -> Result {
    get_elements(status, datatype, Place::Long(count))
}

pub fn status_set_elements(status: *mut Status, datatype: Datatype, count: i64) -> Result {
    let types = mpi().types.borrow();
    let bytes = types.get(datatype)?.of.bytes_of_elements(count);
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| super::types::negative(count))?;
    change(status, |status| status.set_bytes(bytes))
}

pub fn status_set_elements_x(status: *mut Status, datatype: Datatype, count: i64) -> Result {
    status_set_elements(status, datatype, count)
}

pub fn test_cancelled(status: *const Status, flag: *mut c_int) -> Result {
    put(flag, (read(status)?.cancelled != 0).into());
    Ok(())
}

pub fn status_set_cancelled(status: *mut Status, flag: c_int) -> Result {
    change(status, |status| status.cancelled = (flag != 0).into())
}

pub fn status_get_source(status: *const Status, source: *mut c_int) -> Result {
    put(source, read(status)?.source);
    Ok(())
}

pub fn status_get_tag(status: *const Status, tag: *mut c_int) -> Result {
    put(tag, read(status)?.tag);
    Ok(())
}

pub fn status_get_error(status: *const Status, error: *mut c_int) -> Result {
    put(error, read(status)?.error);
    Ok(())
}

pub fn status_set_source(status: *mut Status, source: c_int) -> Result {
    change(status, |status| status.source = source)
}

pub fn status_set_tag(status: *mut Status, tag: c_int) -> Result {
    change(status, |status| status.tag = tag)
}

pub fn status_set_error(status: *mut Status, error: c_int) -> Result {
    change(status, |status| status.error = error)
}
