//! Attributes of communicators and datatypes (MPI-5.0, section 7.7).

#![allow(unsafe_code, reason = "calls functions of the program")]

use super::abi::{CopyAttribute, DeleteAttribute};
use super::exports as abi;
use super::failure::{Failure, Result};
use super::handles::Table;
use super::state::{made, mpi};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// The values of an object by key, in the order in which they were set.
pub type Attributes = Vec<(c_int, *mut c_void)>;

/// A key of the program.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub copy: Option<CopyAttribute>,
    pub delete: Option<DeleteAttribute>,
    pub extra_state: *mut c_void,
}

/// All keys. A key that the program frees stays: copies of it and values may be in use.
pub struct Keys(Table<Key>);

/// `MPI_COMM_DUP_FN` and its like: a number, not a function.
const DUPLICATE: usize = 1;

impl Keys {
    pub const fn new() -> Self {
        Self(Table::new())
    }

    pub fn add(
        &mut self,
        copy: Option<CopyAttribute>,
        delete: Option<DeleteAttribute>,
        extra_state: *mut c_void,
    ) -> Result<c_int> {
        let key = Key {
            copy,
            delete,
            extra_state,
        };
        Ok(made(self.0.add(key), "keys of attributes")? as c_int)
    }

    pub fn get(&self, keyval: c_int) -> Result<Key> {
        self.0.get(keyval as usize).copied().ok_or_else(|| {
            Failure::new(abi::ERR_KEYVAL, format_args!("key {keyval} does not exist"))
        })
    }
}

fn key(keyval: c_int) -> Result<Key> {
    mpi().keys.borrow().get(keyval)
}

/// The attributes of a duplicate of the object with this handle. Calls functions of the program.
pub fn copied(handle: usize, attributes: &Attributes) -> Result<Attributes> {
    let mut copied = Attributes::new();
    for (keyval, value) in attributes {
        let key = key(*keyval)?;
        let Some(copy) = key.copy else { continue };
        if copy as usize == DUPLICATE {
            copied.push((*keyval, *value));
            continue;
        }
        let (mut new, mut flag) = (null_mut::<c_void>(), 0);
        let place = (&raw mut new).cast();
        // SAFETY: the program has given a function of this type.
        let code = unsafe {
            copy(
                handle,
                *keyval,
                key.extra_state,
                *value,
                place,
                &raw mut flag,
            )
        };
        succeeded(code, "copies")?;
        if flag != 0 {
            copied.push((*keyval, new));
        }
    }
    Ok(copied)
}

/// Tells the program that a value is no longer one of this object.
pub fn deleted(handle: usize, (keyval, value): (c_int, *mut c_void)) -> Result {
    let key = key(keyval)?;
    let Some(delete) = key.delete else {
        return Ok(());
    };
    // SAFETY: the program has given a function of this type.
    succeeded(
        unsafe { delete(handle, keyval, value, key.extra_state) },
        "deletes",
    )
}

fn succeeded(code: c_int, what: &str) -> Result {
    match code {
        0 => Ok(()),
        code => Err(Failure::new(
            code,
            format_args!("the function of the program that {what} an attribute returned {code}"),
        )),
    }
}
