//! Objects of the library, which are destroyed once.

#![allow(unsafe_code, reason = "destroys objects of the library")]

use crate::error::Error;
use core::ffi::c_int;
use core::ptr::NonNull;
use std::borrow::Cow;

/// An object of the library, destroyed when dropped. The objects that it was made with must live
/// longer: a struct declares children before parents.
pub(crate) struct Owned<T> {
    raw: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T) -> c_int,
}

// SAFETY: no object depends on the thread that made it, and the library locks objects that are
// shared. Not `Sync`.
unsafe impl<T> Send for Owned<T> {}

impl<T> Owned<T> {
    /// The result of a call that returns null and sets `errno` on an error.
    ///
    /// # Safety
    /// `raw` is null, or an object that is destroyed nowhere else. `destroy` is the function for
    /// it, and the objects that it was made with are destroyed later.
    pub(crate) unsafe fn new(
        attempted: impl Into<Cow<'static, str>>,
        raw: *mut T,
        destroy: unsafe extern "C" fn(*mut T) -> c_int,
    ) -> Result<Self, Error> {
        match NonNull::new(raw) {
            Some(raw) => Ok(Self { raw, destroy }),
            None => Err(Error::system(attempted, last_errno())),
        }
    }

    #[inline]
    pub(crate) fn raw(&self) -> *mut T {
        self.raw.as_ptr()
    }

    /// Destroys the object; if the library refuses, it stays.
    pub(crate) fn destroy(self, attempted: &'static str) -> Result<(), Error> {
        let (raw, destroy) = (self.raw(), self.destroy);
        core::mem::forget(self);
        // SAFETY: as promised to `new`, and it is destroyed only here.
        check(attempted, unsafe { destroy(raw) })
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: as promised to `new`, and it is destroyed only here. A refusal is ignored.
        unsafe { (self.destroy)(self.raw()) };
    }
}

/// The result of a call that returns 0 or an error number.
pub(crate) fn check(attempted: &'static str, status: c_int) -> Result<(), Error> {
    match status {
        0 => Ok(()),
        // Some functions report the error by `errno`.
        status if status < 0 => Err(Error::system(attempted, last_errno())),
        status => Err(Error::system(attempted, status)),
    }
}

/// The error number of the last call.
pub(crate) fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
