//! Attributes (MPI-5.0, section 7.7), and those of the environment (section 9.1.2).

#![allow(unsafe_code, reason = "reads a key of the program")]

use crate::abi::{Comm, CopyAttribute, Datatype, DeleteAttribute, put};
use crate::attribute::{Attributes, deleted};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::state::mpi;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};

/// Values of the environment. The program gets their addresses.
static TAG_UB: c_int = c_int::MAX;
static HOST: c_int = abi::PROC_NULL;
static IO: c_int = abi::ANY_SOURCE;
static WTIME_IS_GLOBAL: c_int = 0;
static UNIVERSE_SIZE: AtomicI32 = AtomicI32::new(0);
static LAST_USED_CODE: AtomicI32 = AtomicI32::new(0);
static APPNUM: AtomicI32 = AtomicI32::new(0);

fn of_environment(keyval: c_int) -> Option<*const c_int> {
    Some(match keyval {
        abi::TAG_UB => &raw const TAG_UB,
        abi::HOST => &raw const HOST,
        abi::IO => &raw const IO,
        abi::WTIME_IS_GLOBAL => &raw const WTIME_IS_GLOBAL,
        abi::UNIVERSE_SIZE => {
            let world = mpi().communicators.borrow();
            let size = world.get(abi::COMM_WORLD).map_or(0, |world| world.size());
            UNIVERSE_SIZE.store(size as c_int, Ordering::Relaxed);
            UNIVERSE_SIZE.as_ptr()
        }
        abi::LASTUSEDCODE => {
            LAST_USED_CODE.store(mpi().errors.borrow().last_used(), Ordering::Relaxed);
            LAST_USED_CODE.as_ptr()
        }
        abi::APPNUM => {
            // Set by the launcher.
            let number = std::env::var("REFRAIN_PROGRAM").ok()?;
            APPNUM.store(number.parse().ok()?, Ordering::Relaxed);
            APPNUM.as_ptr()
        }
        _ => return None,
    })
}

/// Whether the key is one of the ABI, whose values the program cannot change.
fn is_predefined(keyval: c_int) -> bool {
    matches!(
        keyval,
        abi::TAG_UB
            | abi::HOST
            | abi::IO
            | abi::WTIME_IS_GLOBAL
            | abi::UNIVERSE_SIZE
            | abi::LASTUSEDCODE
            | abi::APPNUM
    )
}

fn give(value: Option<*mut c_void>, place: *mut c_void, flag: *mut c_int) {
    put(flag, value.is_some().into());
    if let Some(value) = value {
        put(place.cast::<*mut c_void>(), value);
    }
}

fn value(attributes: &Attributes, keyval: c_int) -> Option<*mut c_void> {
    let found = attributes.iter().find(|(key, _)| *key == keyval);
    found.map(|(_, value)| *value)
}

/// Objects that have attributes.
pub trait Attributed {
    fn handle(self) -> usize;
    fn with<T>(self, act: impl FnOnce(&mut Attributes) -> T) -> Result<T>;
}

impl Attributed for Comm {
    fn handle(self) -> usize {
        self.0
    }

    fn with<T>(self, act: impl FnOnce(&mut Attributes) -> T) -> Result<T> {
        let mut communicators = mpi().communicators.borrow_mut();
        Ok(act(&mut communicators.get_mut(self)?.attributes))
    }
}

impl Attributed for Datatype {
    fn handle(self) -> usize {
        self.0
    }

    fn with<T>(self, act: impl FnOnce(&mut Attributes) -> T) -> Result<T> {
        let mut types = mpi().types.borrow_mut();
        Ok(act(&mut types.get_mut(self)?.attributes))
    }
}

fn get(of: impl Attributed, keyval: c_int, place: *mut c_void, flag: *mut c_int) -> Result {
    mpi().keys.borrow().get(keyval)?;
    give(
        of.with(|attributes| value(attributes, keyval))?,
        place,
        flag,
    );
    Ok(())
}

fn set(of: impl Attributed + Copy, keyval: c_int, value: *mut c_void) -> Result {
    changeable(keyval)?;
    if let Some(old) = of.with(|attributes| self::value(attributes, keyval))? {
        // It stays if the program's function refuses.
        deleted(of.handle(), (keyval, old))?;
        take(of, keyval)?;
    }
    of.with(|attributes| attributes.push((keyval, value)))
}

fn delete(of: impl Attributed + Copy, keyval: c_int) -> Result {
    changeable(keyval)?;
    let Some(old) = of.with(|attributes| self::value(attributes, keyval))? else {
        return Err(Failure::new(
            abi::ERR_KEYVAL,
            format_args!("the object has no attribute of key {keyval}"),
        ));
    };
    deleted(of.handle(), (keyval, old))?;
    take(of, keyval).map(drop)
}

/// Deletes all attributes of an object, the last one first.
pub fn delete_all(of: impl Attributed + Copy) -> Result {
    while let Some(last) = of.with(|attributes| attributes.last().copied())? {
        deleted(of.handle(), last)?;
        take(of, last.0)?;
    }
    Ok(())
}

fn take(of: impl Attributed, keyval: c_int) -> Result<Option<*mut c_void>> {
    of.with(|attributes| {
        let index = attributes.iter().position(|(key, _)| *key == keyval);
        index.map(|index| attributes.remove(index).1)
    })
}

fn changeable(keyval: c_int) -> Result {
    match is_predefined(keyval) {
        true => Err(Failure::new(
            abi::ERR_KEYVAL,
            format_args!("key {keyval} is predefined: its value cannot be changed"),
        )),
        false => mpi().keys.borrow().get(keyval).map(drop),
    }
}

fn create(
    copy: Option<CopyAttribute>,
    delete: Option<DeleteAttribute>,
    place: *mut c_int,
    extra_state: *mut c_void,
) -> Result {
    put(
        place,
        mpi().keys.borrow_mut().add(copy, delete, extra_state)?,
    );
    Ok(())
}

fn free(place: *mut c_int) -> Result {
    // SAFETY: the standard asks the program for a key.
    mpi().keys.borrow().get(unsafe { *place })?;
    put(place, abi::KEYVAL_INVALID);
    Ok(())
}

pub fn comm_create_keyval(
    copy: Option<CopyAttribute>,
    delete: Option<DeleteAttribute>,
    place: *mut c_int,
    extra_state: *mut c_void,
) -> Result {
    create(copy, delete, place, extra_state)
}

pub fn comm_free_keyval(place: *mut c_int) -> Result {
    free(place)
}

pub fn comm_get_attr(comm: Comm, keyval: c_int, place: *mut c_void, flag: *mut c_int) -> Result {
    if is_predefined(keyval) {
        mpi().communicators.borrow().get(comm)?;
        let value = of_environment(keyval).map(|value| value.cast_mut().cast());
        give(value, place, flag);
        return Ok(());
    }
    get(comm, keyval, place, flag)
}

pub fn comm_set_attr(comm: Comm, keyval: c_int, value: *mut c_void) -> Result {
    set(comm, keyval, value)
}

pub fn comm_delete_attr(comm: Comm, keyval: c_int) -> Result {
    delete(comm, keyval)
}

pub fn type_create_keyval(
    copy: Option<CopyAttribute>,
    delete: Option<DeleteAttribute>,
    place: *mut c_int,
    extra_state: *mut c_void,
) -> Result {
    create(copy, delete, place, extra_state)
}

pub fn type_free_keyval(place: *mut c_int) -> Result {
    free(place)
}

pub fn type_get_attr(of: Datatype, keyval: c_int, place: *mut c_void, flag: *mut c_int) -> Result {
    get(of, keyval, place, flag)
}

pub fn type_set_attr(of: Datatype, keyval: c_int, value: *mut c_void) -> Result {
    set(of, keyval, value)
}

pub fn type_delete_attr(of: Datatype, keyval: c_int) -> Result {
    delete(of, keyval)
}

pub fn keyval_create(
    copy: Option<CopyAttribute>,
    delete: Option<DeleteAttribute>,
    place: *mut c_int,
    extra_state: *mut c_void,
) -> Result {
    create(copy, delete, place, extra_state)
}

pub fn keyval_free(place: *mut c_int) -> Result {
    free(place)
}

pub fn attr_get(comm: Comm, keyval: c_int, place: *mut c_void, flag: *mut c_int) -> Result {
    comm_get_attr(comm, keyval, place, flag)
}

pub fn attr_put(comm: Comm, keyval: c_int, value: *mut c_void) -> Result {
    set(comm, keyval, value)
}

pub fn attr_delete(comm: Comm, keyval: c_int) -> Result {
    delete(comm, keyval)
}
