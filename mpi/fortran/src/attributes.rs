//! Attributes: Fortran has their values as INTEGER, C as pointers.
//!
//! C gets a value that Fortran has set as a pointer to it (MPI-5.0, section 19.3.7). So each value
//! has a cell, which stays; equal values have one. A pointer that leads to no cell was set by C, and
//! is the value in Fortran.

#![allow(unsafe_code, reason = "calls functions of the program")]

use super::handle::Handle;
use super::logical;
use core::ffi::{c_int, c_void};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values with their cells, and cells by their addresses.
struct Cells {
    of_values: BTreeMap<i64, &'static i64>,
    at: BTreeMap<usize, i64>,
}

static CELLS: Mutex<Cells> = Mutex::new(Cells {
    of_values: BTreeMap::new(),
    at: BTreeMap::new(),
});

fn cells() -> MutexGuard<'static, Cells> {
    CELLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pointer for C to a value of Fortran.
pub fn pointer(value: i64) -> *mut c_void {
    let Cells { of_values, at } = &mut *cells();
    let cell = *of_values.entry(value).or_insert_with(|| {
        let cell: &'static i64 = Box::leak(Box::new(value));
        at.insert((&raw const *cell).addr(), value);
        cell
    });
    (&raw const *cell).cast_mut().cast()
}

/// The value for Fortran of a pointer of C.
pub fn value(pointer: *mut c_void) -> i64 {
    let cell = cells().at.get(&pointer.addr()).copied();
    cell.unwrap_or(pointer.addr() as i64)
}

/// The value of a predefined attribute, to which C gets a pointer.
///
/// # Safety
/// The pointer is that of C.
pub unsafe fn predefined(keyval: c_int, pointer: *mut c_void) -> Option<i64> {
    /// MPI_TAG_UB to MPI_UNIVERSE_SIZE; MPI_WIN_DISP_UNIT, MPI_WIN_CREATE_FLAVOR, MPI_WIN_MODEL.
    const INTEGERS: [core::ops::RangeInclusive<c_int>; 3] = [501..=507, 602..=602, 604..=605];
    const WIN_SIZE: c_int = 603;
    if INTEGERS.iter().any(|keys| keys.contains(&keyval)) {
        // SAFETY: the standard says what C has there.
        Some(unsafe { pointer.cast::<c_int>().read() }.into())
    } else if keyval == WIN_SIZE {
        // SAFETY: likewise.
        Some(unsafe { pointer.cast::<i64>().read() })
    } else {
        None
    }
}

/// The INTEGER that the functions of a key have: of the kind of addresses, or, in functions of MPI 1,
/// of the default kind.
pub trait Integer: Into<i64> {
    /// As Fortran converts to this kind.
    fn of(value: i64) -> Self;
}

impl Integer for i64 {
    fn of(value: i64) -> Self {
        value
    }
}

impl Integer for c_int {
    fn of(value: i64) -> Self {
        value as c_int
    }
}

/// The functions of a key, and what they get.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    copy: *const c_void,
    delete: *const c_void,
    extra_state: i64,
}

// SAFETY: the addresses are those of functions.
unsafe impl Send for Key {}

// SAFETY: likewise.
unsafe impl Sync for Key {}

/// Keys that have been made: equal ones are kept once, as nothing tells when C needs one no more.
static KEYS: Mutex<Vec<&'static Key>> = Mutex::new(Vec::new());

/// A function of C that creates a key.
pub type CreateKeyval =
    unsafe extern "C" fn(*const c_void, *const c_void, *mut c_int, *mut c_void) -> c_int;

/// Creates a key whose functions are those of Fortran.
///
/// # Safety
/// The functions are those of a key of this kind of object.
pub unsafe fn create<H: Handle, T: Integer>(
    create: CreateKeyval,
    copy: *const c_void,
    delete: *const c_void,
    keyval: *mut c_int,
    extra_state: T,
) -> c_int {
    let key = Key {
        copy,
        delete,
        extra_state: extra_state.into(),
    };
    let mut keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = keys.iter().copied().find(|it| **it == key);
    let key = found.unwrap_or_else(|| {
        let key: &'static Key = Box::leak(Box::new(key));
        keys.push(key);
        key
    });
    drop(keys);
    let copy = copy_attribute::<H, T> as *const c_void;
    let delete = delete_attribute::<H, T> as *const c_void;
    // SAFETY: the functions are those that C calls for this kind of object.
    unsafe { create(copy, delete, keyval, (&raw const *key).cast_mut().cast()) }
}

type Copy<T> =
    unsafe extern "C" fn(*mut c_int, *mut c_int, *mut T, *mut T, *mut T, *mut c_int, *mut c_int);
type Delete<T> = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut T, *mut T, *mut c_int);

/// # Safety
/// C calls it with the state of a key and places for results.
unsafe extern "C" fn copy_attribute<H: Handle, T: Integer>(
    object: H,
    mut keyval: c_int,
    state: *mut c_void,
    from: *mut c_void,
    to: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: `create` has given this state to C.
    let key = unsafe { &*state.cast::<Key>() };
    // SAFETY: the program has said that its function is one.
    let copy = unsafe { core::mem::transmute::<*const c_void, Copy<T>>(key.copy) };
    let mut object = object.to_int();
    let (mut state, mut value, mut copied) = (T::of(key.extra_state), T::of(value(from)), T::of(0));
    let (mut is_copied, mut error) = (logical::value(0), 0);
    // SAFETY: all places are variables of this function.
    unsafe {
        copy(
            &raw mut object,
            &raw mut keyval,
            &raw mut state,
            &raw mut value,
            &raw mut copied,
            &raw mut is_copied,
            &raw mut error,
        );
    }
    let is_copied = logical::is_true(is_copied);
    // SAFETY: the places are those of C.
    unsafe {
        flag.write(is_copied);
        if is_copied != 0 {
            to.write(pointer(copied.into()));
        }
    }
    error
}

/// # Safety
/// C calls it with the state of a key.
unsafe extern "C" fn delete_attribute<H: Handle, T: Integer>(
    object: H,
    mut keyval: c_int,
    pointer: *mut c_void,
    state: *mut c_void,
) -> c_int {
    // SAFETY: `create` has given this state to C.
    let key = unsafe { &*state.cast::<Key>() };
    // SAFETY: the program has said that its function is one.
    let delete = unsafe { core::mem::transmute::<*const c_void, Delete<T>>(key.delete) };
    let mut object = object.to_int();
    let (mut state, mut value, mut error) = (T::of(key.extra_state), T::of(value(pointer)), 0);
    // SAFETY: all places are variables of this function.
    unsafe {
        delete(
            &raw mut object,
            &raw mut keyval,
            &raw mut value,
            &raw mut state,
            &raw mut error,
        );
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_pointers_of_c_are_values() {
        for set in [0, 1, -1, i64::MIN, i64::MAX, 1] {
            let at = pointer(set);
            assert_eq!((value(at), at), (set, pointer(set)));
        }
        let other = 7_i64;
        let at = (&raw const other).cast_mut();
        assert_eq!(value(at.cast()), at.addr() as i64);
    }
}
