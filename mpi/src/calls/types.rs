//! Datatypes (MPI-5.0, chapter 5), and the program's buffers as messages.

#![allow(unsafe_code, reason = "lends the program's buffers to the library")]

use crate::abi::Datatype;
use crate::datatype::size_of_basic;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::state::mpi;
use core::ffi::c_void;
use refrain::{Layout, ReceiveBuffer, SendBuffer};
use std::sync::Arc;

/// Where the data of a buffer lies.
#[derive(Clone, Debug)]
pub enum Form {
    /// One byte behind the other.
    Bytes(usize),
    /// In copies of a layout.
    Copies(u64, Arc<Layout>),
}

/// Bytes of the usual buffer: one item of a type without gaps behind the other.
#[inline(always)]
pub fn usual_bytes(at: *const c_void, count: i64, datatype: Datatype) -> Option<usize> {
    let size = match size_of_basic(datatype) {
        0 => mpi().types.borrow().size_of_dense(datatype),
        size => size,
    };
    match !at.is_null() && size > 0 && count >= 0 {
        true => usize::try_from(count.checked_mul(size)?).ok(),
        false => None,
    }
}

/// The form of `count` items of a type.
#[inline]
pub fn form(count: i64, datatype: Datatype) -> Result<Form> {
    match size_of_basic(datatype) {
        size if size > 0 && count >= 0 => dense(count, size),
        _ => form_of_derived(count, datatype),
    }
}

#[inline]
fn dense(count: i64, size: i64) -> Result<Form> {
    match count.checked_mul(size) {
        Some(bytes) => Ok(Form::Bytes(bytes as usize)),
        None => Err(Failure::new(
            abi::ERR_COUNT,
            format_args!("{count} items of {size} bytes are more than a memory holds"),
        )),
    }
}

#[inline(never)]
fn form_of_derived(count: i64, datatype: Datatype) -> Result<Form> {
    // Programs give it for no data, which other libraries accept.
    if count == 0 && datatype == abi::DATATYPE_NULL {
        return Ok(Form::Bytes(0));
    }
    let types = mpi().types.borrow();
    let known = types.ready(datatype)?;
    let copies = u64::try_from(count).map_err(|_| negative(count))?;
    match known.dense_bytes() {
        0 if known.of.size() > 0 => Ok(Form::Copies(copies, known.of.layout()?)),
        bytes => dense(count, bytes),
    }
}

#[cold]
pub fn negative(count: i64) -> Failure {
    Failure::new(
        abi::ERR_COUNT,
        format_args!("the count is {count}: give 0 or more"),
    )
}

#[cold]
fn null(bytes: usize) -> Failure {
    Failure::new(
        abi::ERR_BUFFER,
        format_args!("the buffer is NULL, and {bytes} bytes are needed"),
    )
}

/// A buffer to send from.
#[inline]
pub fn outgoing(at: *const c_void, count: i64, datatype: Datatype) -> Result<SendBuffer> {
    match form(count, datatype)? {
        Form::Bytes(bytes) if at.is_null() && bytes > 0 => Err(null(bytes)),
        // SAFETY: the standard asks the program to leave the buffer alone until the send is complete.
        Form::Bytes(bytes) => Ok(unsafe { SendBuffer::bytes(at.cast(), bytes) }),
        Form::Copies(copies, layout) => {
            // SAFETY: likewise. Absolute addresses come from `MPI_Get_address`.
            let buffer = unsafe { SendBuffer::laid_out(at.cast(), copies, layout) };
            buffer.map_err(|why| Failure::new(abi::ERR_TYPE, why))
        }
    }
}

/// A buffer to receive into.
#[inline]
pub fn incoming(at: *mut c_void, count: i64, datatype: Datatype) -> Result<ReceiveBuffer> {
    match form(count, datatype)? {
        Form::Bytes(bytes) if at.is_null() && bytes > 0 => Err(null(bytes)),
        // SAFETY: the standard asks the program to leave the buffer alone until the receive is complete.
        Form::Bytes(bytes) => Ok(unsafe { ReceiveBuffer::bytes(at.cast(), bytes) }),
        Form::Copies(copies, layout) => {
            // SAFETY: likewise.
            let buffer = unsafe { ReceiveBuffer::laid_out(at.cast(), copies, layout) };
            buffer.map_err(|why| Failure::new(abi::ERR_TYPE, why))
        }
    }
}
