//! Info objects (MPI-5.0, chapter 10).

#![allow(unsafe_code, reason = "reads texts of the program")]

use crate::abi::{Info, put, put_text, text};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::info::Pairs;
use crate::state::mpi;
use core::ffi::{c_char, c_int};

/// A key or value of the program.
fn read(at: *const c_char, code: c_int, room: c_int) -> Result<Vec<u8>> {
    // SAFETY: the standard asks the program for a text.
    let said = unsafe { text(at) }.unwrap_or_default();
    match said.len() < room as usize && (!said.is_empty() || code == abi::ERR_INFO_VALUE) {
        true => Ok(said),
        false => Err(Failure::new(
            code,
            format_args!("a text of {} bytes: give 1 to {}", said.len(), room - 1),
        )),
    }
}

fn key(at: *const c_char) -> Result<Vec<u8>> {
    read(at, abi::ERR_INFO_KEY, abi::MAX_INFO_KEY)
}

fn pairs(info: Info) -> Result<Pairs> {
    mpi().infos.borrow().get(info)
}

fn find(info: Info, at: *const c_char) -> Result<Option<Vec<u8>>> {
    let key = key(at)?;
    let found = pairs(info)?.into_iter().find(|(known, _)| *known == key);
    Ok(found.map(|(_, value)| value))
}

fn give(pairs: Pairs, place: *mut Info) -> Result {
    put(place, mpi().infos.borrow_mut().add(pairs)?);
    Ok(())
}

pub fn info_create(place: *mut Info) -> Result {
    give(Pairs::new(), place)
}

pub fn info_create_env(_argc: c_int, _argv: *mut *mut c_char, place: *mut Info) -> Result {
    give(pairs(abi::INFO_ENV)?, place)
}

pub fn info_dup(info: Info, place: *mut Info) -> Result {
    give(pairs(info)?, place)
}

pub fn info_free(place: *mut Info) -> Result {
    // SAFETY: the standard asks the program for a handle.
    mpi().infos.borrow_mut().remove(unsafe { *place })?;
    put(place, abi::INFO_NULL);
    Ok(())
}

pub fn info_set(info: Info, at: *const c_char, value: *const c_char) -> Result {
    let key = key(at)?;
    let value = read(value, abi::ERR_INFO_VALUE, abi::MAX_INFO_VAL)?;
    let mut infos = mpi().infos.borrow_mut();
    let pairs = infos.get_mut(info)?;
    match pairs.iter_mut().find(|(known, _)| *known == key) {
        Some((_, old)) => *old = value,
        None => pairs.push((key, value)),
    }
    Ok(())
}

pub fn info_delete(info: Info, at: *const c_char) -> Result {
    let key = key(at)?;
    let mut infos = mpi().infos.borrow_mut();
    let pairs = infos.get_mut(info)?;
    match pairs.iter().position(|(known, _)| *known == key) {
        Some(index) => {
            pairs.remove(index);
            Ok(())
        }
        None => Err(Failure::new(
            abi::ERR_INFO_NOKEY,
            format_args!("the info object has no key \"{}\"", key.escape_ascii()),
        )),
    }
}

pub fn info_get(
    info: Info,
    at: *const c_char,
    length: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result {
    let found = find(info, at)?;
    put(flag, found.is_some().into());
    if let Some(found) = found {
        put_text(value, &found, length.max(0) as usize + 1);
    }
    Ok(())
}

pub fn info_get_string(
    info: Info,
    at: *const c_char,
    length: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result {
    let found = find(info, at)?;
    put(flag, found.is_some().into());
    if let Some(found) = found {
        // SAFETY: the standard asks the program for a length.
        let room = unsafe { *length };
        put_text(value, &found, room.max(0) as usize);
        put(length, found.len() as c_int + 1);
    }
    Ok(())
}

pub fn info_get_valuelen(
    info: Info,
    at: *const c_char,
    length: *mut c_int,
    flag: *mut c_int,
) -> Result {
    let found = find(info, at)?;
    put(flag, found.is_some().into());
    if let Some(found) = found {
        put(length, found.len() as c_int);
    }
    Ok(())
}

pub fn info_get_nkeys(info: Info, number: *mut c_int) -> Result {
    put(number, pairs(info)?.len() as c_int);
    Ok(())
}

pub fn info_get_nthkey(info: Info, number: c_int, place: *mut c_char) -> Result {
    let pairs = pairs(info)?;
    let Some((key, _)) = pairs.get(number as usize) else {
        return Err(Failure::argument(format_args!(
            "key {number} does not exist: the info object has {} keys",
            pairs.len()
        )));
    };
    put_text(place, key, abi::MAX_INFO_KEY as usize);
    Ok(())
}
