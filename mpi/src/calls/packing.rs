//! Packing into buffers of the program (MPI-5.0, sections 5.2 and 5.3).

#![allow(unsafe_code, reason = "copies between buffers of the program")]

use super::types::{incoming, negative, outgoing};
use crate::abi::{Comm, Datatype, Place, text};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::state::mpi;
use core::ffi::{c_char, c_void};
use refrain::{ReceiveBuffer, SendBuffer};

/// Part of a packed buffer.
struct Room {
    at: *mut u8,
    bytes: usize,
    end: i64,
}

impl Room {
    /// `bytes` bytes from `position` on in a buffer of `size` bytes.
    fn new(buffer: *const c_void, size: i64, position: Place, bytes: i64) -> Result<Self> {
        // SAFETY: the standard asks the program for a number there.
        let begin = unsafe { position.get() };
        let end = begin.checked_add(bytes).filter(|end| *end <= size);
        let (0.., Some(end)) = (begin, end) else {
            return Err(Failure::new(
                abi::ERR_TRUNCATE,
                format_args!(
                    "{bytes} bytes at position {begin} do not fit a packed buffer of {size}"
                ),
            ));
        };
        let at = buffer.cast_mut().cast::<u8>();
        Ok(Self {
            at: at.wrapping_add(begin as usize),
            bytes: bytes as usize,
            end,
        })
    }

    fn as_slice(&self) -> &[u8] {
        // SAFETY: the standard asks the program for this buffer.
        unsafe { crate::abi::list(self.at, self.bytes) }
    }

    fn as_slice_mut(&mut self) -> &mut [u8] {
        // SAFETY: likewise.
        unsafe { crate::abi::list_mut(self.at, self.bytes) }
    }
}

/// Copies the data of a buffer of the program to bytes that are as many.
fn gather(data: &SendBuffer, to: *mut u8, bytes: usize) {
    // SAFETY: the caller has so many bytes there; the standard asks the program that buffers are apart.
    unsafe { data.copy_to(&ReceiveBuffer::bytes(to, bytes)) };
}

/// Copies bytes to a buffer of the program that takes as many.
fn scatter(from: *const u8, bytes: usize, room: &ReceiveBuffer) {
    // SAFETY: as above.
    unsafe { SendBuffer::bytes(from, bytes).copy_to(room) };
}

fn check(comm: Comm) -> Result {
    mpi().communicators.borrow().get(comm).map(|_| ())
}

pub fn pack(
    from: *const c_void,
    count: i64,
    datatype: Datatype,
    buffer: *mut c_void,
    size: i64,
    position: Place,
    comm: Comm,
) -> Result {
    check(comm)?;
    let data = outgoing(from, count, datatype)?;
    let room = Room::new(buffer, size, position, data.message_bytes() as i64)?;
    gather(&data, room.at, room.bytes);
    position.set(room.end);
    Ok(())
}

pub fn unpack(
    buffer: *const c_void,
    size: i64,
    position: Place,
    to: *mut c_void,
    count: i64,
    datatype: Datatype,
    comm: Comm,
) -> Result {
    check(comm)?;
    let into = incoming(to, count, datatype)?;
    let room = Room::new(buffer, size, position, into.room_bytes() as i64)?;
    scatter(room.at, room.bytes, &into);
    position.set(room.end);
    Ok(())
}

/// Bytes of `count` items, of which each has `each`.
fn bytes_of(count: i64, each: i64) -> Result<i64> {
    match count {
        0.. => count.checked_mul(each).ok_or_else(|| {
            Failure::new(abi::ERR_COUNT, format_args!("{count} items are too many"))
        }),
        _ => Err(negative(count)),
    }
}

pub fn pack_size(count: i64, datatype: Datatype, comm: Comm, size: Place) -> Result {
    check(comm)?;
    let each = mpi().types.borrow().committed(datatype)?.size();
    size.set(bytes_of(count, each)?);
    Ok(())
}

/// "external32" is the only representation.
fn check_representation(name: *const c_char) -> Result {
    // SAFETY: the standard asks the program for a text.
    match unsafe { text(name) }.as_deref() {
        Some(b"external32") => Ok(()),
        name => Err(Failure::new(
            abi::ERR_UNSUPPORTED_DATAREP,
            format_args!(
                "data representation \"{}\" does not exist: give \"external32\"",
                name.unwrap_or_default().escape_ascii()
            ),
        )),
    }
}

pub fn pack_external_size(
    representation: *const c_char,
    count: i64,
    datatype: Datatype,
    size: Place,
) -> Result {
    check_representation(representation)?;
    let each = mpi().types.borrow().committed(datatype)?.external_size();
    size.set(bytes_of(count, each)?);
    Ok(())
}

pub fn pack_external(
    representation: *const c_char,
    from: *const c_void,
    count: i64,
    datatype: Datatype,
    buffer: *mut c_void,
    size: i64,
    position: Place,
) -> Result {
    check_representation(representation)?;
    let of = mpi().types.borrow().committed(datatype)?.clone();
    let data = outgoing(from, count, datatype)?;
    let bytes = bytes_of(count, of.external_size())?;
    let mut room = Room::new(buffer, size, position, bytes)?;
    let mut dense = vec![0; data.message_bytes() as usize];
    gather(&data, dense.as_mut_ptr(), dense.len());
    of.encode(count, &dense, room.as_slice_mut())?;
    position.set(room.end);
    Ok(())
}

pub fn unpack_external(
    representation: *const c_char,
    buffer: *const c_void,
    size: i64,
    position: Place,
    to: *mut c_void,
    count: i64,
    datatype: Datatype,
) -> Result {
    check_representation(representation)?;
    let of = mpi().types.borrow().committed(datatype)?.clone();
    let into = incoming(to, count, datatype)?;
    let bytes = bytes_of(count, of.external_size())?;
    let room = Room::new(buffer, size, position, bytes)?;
    let mut dense = vec![0; into.room_bytes() as usize];
    of.decode(count, room.as_slice(), &mut dense)?;
    scatter(dense.as_ptr(), dense.len(), &into);
    position.set(room.end);
    Ok(())
}
