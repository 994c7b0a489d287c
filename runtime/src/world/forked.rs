//! Children that a rank's process forks. A child has a copy of the world, but only one process can
//! be the rank: in the child, every operation is an error, and the world is not dropped.

#![allow(
    unsafe_code,
    reason = "registers a handler of forks, and drops by hand"
)]

use crate::Error;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;

static IS_CHILD: AtomicBool = AtomicBool::new(false);

// SAFETY: it requires nothing of its caller; its type is the one that `pthread_atfork` takes.
unsafe extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// Registers the handler that marks children from now on.
///
/// # Errors
/// In a forked child.
pub(super) fn watch() -> Result<(), Error> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Without memory for the handler's entry, children are not detected.
        // SAFETY: the function stores to an atomic, which is allowed in a child.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    check()
}

/// Whether this process is a child of the process that joined the job.
#[inline]
pub(super) fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Checks that this process may call the library.
///
/// # Errors
/// In a child that was forked after [`World::init`](crate::World::init).
#[inline]
pub fn check() -> Result<(), Error> {
    match is_child() {
        false => Ok(()),
        true => Err(Error::Forked),
    }
}

/// A value that is dropped only in the process that made it. A forked child has no copies of its
/// threads, and its connections belong to the parent.
#[derive(Debug)]
pub(super) struct OfThisProcess<T>(ManuallyDrop<T>);

impl<T> OfThisProcess<T> {
    pub(super) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T> Drop for OfThisProcess<T> {
    fn drop(&mut self) {
        if check().is_ok() {
            // SAFETY: the value is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.0) }
        }
    }
}

impl<T> Deref for OfThisProcess<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for OfThisProcess<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
