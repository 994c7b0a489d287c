//! Buffers for buffered sends (MPI-5.0, section 3.6).
//!
//! The library copies a message into its log, or into a copy of its own; the program's buffer is
//! only counted. So it has room for one message after the other, and is empty at any time.

use crate::abi::{Place, Request, put};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::request::{Entry, Operation};
use crate::state::mpi;
use core::ffi::c_void;
use refrain::SendBuffer;

/// The buffer that the program has attached: its address and length.
#[derive(Clone, Copy, Debug)]
pub struct Attached {
    at: *mut c_void,
    bytes: i64,
}

/// Checks that a message fits the attached buffer.
pub fn check(data: &SendBuffer) -> Result {
    let needed = data.message_bytes() as i64 + i64::from(abi::BSEND_OVERHEAD);
    match mpi().attached.get() {
        Some(buffer) if buffer.at.addr() == abi_automatic() || needed <= buffer.bytes => Ok(()),
        Some(buffer) => Err(Failure::new(
            abi::ERR_BUFFER,
            format_args!(
                "the message needs {needed} bytes with MPI_BSEND_OVERHEAD, and the attached buffer has {}",
                buffer.bytes
            ),
        )),
        None => Err(Failure::new(
            abi::ERR_BUFFER,
            "no buffer is attached: call MPI_Buffer_attach before a buffered send",
        )),
    }
}

/// `MPI_BUFFER_AUTOMATIC`
fn abi_automatic() -> usize {
    2
}

pub fn buffer_attach(at: *mut c_void, bytes: i64) -> Result {
    if mpi().attached.get().is_some() {
        return Err(Failure::new(
            abi::ERR_BUFFER,
            "a buffer is attached already: detach it first",
        ));
    }
    if bytes < 0 {
        return Err(Failure::argument(format_args!(
            "the buffer has {bytes} bytes: give 0 or more"
        )));
    }
    mpi().attached.set(Some(Attached { at, bytes }));
    Ok(())
}

pub fn buffer_detach(place: *mut c_void, bytes: Place) -> Result {
    let Some(buffer) = mpi().attached.take() else {
        return Err(Failure::new(abi::ERR_BUFFER, "no buffer is attached"));
    };
    put(place.cast::<*mut c_void>(), buffer.at);
    bytes.set(buffer.bytes);
    Ok(())
}

pub fn buffer_flush() -> Result {
    Ok(())
}

pub fn buffer_iflush(request: *mut Request) -> Result {
    mpi().give(request, Entry::new(Operation::Nothing, None))
}
