//! Pointers from C: each is checked as far as possible, and trusted beyond that.

#![allow(unsafe_code, reason = "reads and writes what programs in C point to")]

use super::failure::Failure;
use core::ffi::c_void;
use refrain::{ReceiveBuffer, SendBuffer};

/// Place for one result.
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A place that must not be null.
    ///
    /// # Safety
    /// If `place` is not null, it must be writable until the result is written.
    pub unsafe fn required(name: &str, place: *mut T) -> Result<Self, Failure> {
        match place.is_null() {
            true => Err(Failure::argument(format_args!("{name} is NULL"))),
            // SAFETY: the caller's promise.
            false => unsafe { Self::optional(name, place) },
        }
    }

    /// A place that may be null: then the result is dropped.
    ///
    /// # Safety
    /// As [`Out::required`].
    pub unsafe fn optional(name: &str, place: *mut T) -> Result<Self, Failure> {
        aligned(name, place)?;
        Ok(Self(place))
    }

    pub fn set(&mut self, value: T) {
        if !self.0.is_null() {
            // SAFETY: writable by the promise at its construction.
            unsafe { self.0.write(value) }
        }
    }
}

/// Values of C that are read and may be changed.
#[derive(Debug)]
pub struct Array<T> {
    base: *mut T,
    count: usize,
}

impl<T: Copy> Array<T> {
    /// `count` values from `base` on.
    ///
    /// # Safety
    /// If `base` is not null, all values must be readable and writable until the call from C ends.
    pub unsafe fn required(name: &str, base: *mut T, count: usize) -> Result<Self, Failure> {
        if count > 0 && base.is_null() {
            return Err(Failure::argument(format_args!("{name} is NULL")));
        }
        // SAFETY: the caller's promise.
        unsafe { Self::optional(name, base, count) }
    }

    /// As [`Array::required`], but `base` may be null: then the array is empty.
    ///
    /// # Safety
    /// As [`Array::required`].
    pub unsafe fn optional(name: &str, base: *mut T, count: usize) -> Result<Self, Failure> {
        aligned(name, base)?;
        if count.checked_mul(size_of::<T>()).is_none_or(is_too_long) {
            return Err(Failure::argument(format_args!(
                "{count} {name} are too many"
            )));
        }
        let count = if base.is_null() { 0 } else { count };
        Ok(Self { base, count })
    }

    /// All values.
    pub fn values(&mut self) -> &mut [T] {
        if self.base.is_null() {
            return &mut [];
        }
        // SAFETY: readable and writable by the promise at its construction; aligned,
        // and no longer than memory can be.
        unsafe { core::slice::from_raw_parts_mut(self.base, self.count) }
    }

    /// Writes a value; does nothing beyond the end of the array.
    pub fn set(&mut self, index: usize, value: T) {
        if index < self.count {
            // SAFETY: writable by the promise at its construction.
            unsafe { self.base.add(index).write(value) }
        }
    }
}

/// `count` values from `base` on, which the caller keeps as they are until the call from C ends.
///
/// # Safety
/// If `base` is not null, all values must be readable, and unchanged while the result lives.
pub unsafe fn list<'a, T: Copy>(
    name: &str,
    base: *const T,
    count: usize,
) -> Result<&'a [T], Failure> {
    // SAFETY: the caller's promise; nothing is written.
    let array = unsafe { Array::required(name, base.cast_mut(), count) }?;
    match array.count {
        0 => Ok(&[]),
        // SAFETY: readable by the caller's promise; aligned, and no longer than memory can be.
        count => Ok(unsafe { core::slice::from_raw_parts(array.base, count) }),
    }
}

fn aligned<T>(name: &str, place: *const T) -> Result<(), Failure> {
    match place.is_aligned() {
        true => Ok(()),
        false => Err(Failure::argument(format_args!("{name} is not aligned"))),
    }
}

fn is_too_long(bytes: usize) -> bool {
    isize::try_from(bytes).is_err()
}

fn check_bytes(name: &str, base: *const c_void, bytes: usize) -> Result<(), Failure> {
    if base.is_null() && bytes > 0 {
        return Err(Failure::argument(format_args!(
            "{name} is NULL, and {bytes} bytes long"
        )));
    }
    if is_too_long(bytes) {
        return Err(Failure::argument(format_args!(
            "{name} cannot be {bytes} bytes long"
        )));
    }
    Ok(())
}

/// A non-null address, also for an empty buffer.
fn some_address(base: *mut c_void) -> *mut u8 {
    match base.is_null() {
        true => core::ptr::NonNull::dangling().as_ptr(),
        false => base.cast(),
    }
}

/// Checks data to send.
///
/// # Safety
/// As [`SendBuffer::bytes`].
pub unsafe fn outgoing(data: *const c_void, bytes: usize) -> Result<SendBuffer, Failure> {
    check_bytes("data", data, bytes)?;
    // SAFETY: the caller's promise, and the length was checked.
    Ok(unsafe { SendBuffer::bytes(some_address(data.cast_mut()), bytes) })
}

/// Checks a buffer to receive into.
///
/// # Safety
/// As [`ReceiveBuffer::bytes`].
pub unsafe fn incoming(buffer: *mut c_void, bytes: usize) -> Result<ReceiveBuffer, Failure> {
    check_bytes("buffer", buffer, bytes)?;
    // SAFETY: the caller's promise, and the length was checked.
    Ok(unsafe { ReceiveBuffer::bytes(some_address(buffer), bytes) })
}

/// Memory that is part of checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Protected {
    base: *mut u8,
    bytes: usize,
}

impl Protected {
    /// `bytes` bytes from `base` on.
    ///
    /// # Safety
    /// While the value is kept, the bytes must be readable and writable, and the program must not
    /// touch them during a read or fill.
    pub unsafe fn new(base: *mut c_void, bytes: usize) -> Result<Self, Failure> {
        check_bytes("memory", base, bytes)?;
        let base = some_address(base);
        Ok(Self { base, bytes })
    }

    pub fn len(self) -> usize {
        self.bytes
    }

    /// The present contents.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: readable by the promise at its construction. Memory that the program in C has not
        // initialized counts as bytes, since Rust has not allocated it.
        unsafe { core::slice::from_raw_parts(self.base, self.bytes) }
    }

    /// Overwrites the memory with `bytes`, which has the same length.
    pub fn fill(self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.bytes);
        // SAFETY: writable by the promise at its construction; `bytes` is the
        // library's own memory.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base, self.bytes) }
    }
}
