//! Children that the process of a rank forks. They have a copy of its world, but only one
//! process can be the rank: in the child every operation is an error, and the world is not
//! dropped.

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

// SAFETY: it requires nothing of its caller; the type is that of `pthread_atfork`.
unsafe extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// From now on children are noticed.
///
/// # Errors
/// In a child.
pub(super) fn watch() -> Result<(), Error> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Without memory for the entry, children are not noticed.
        // SAFETY: the function stores to an atomic, which is allowed in a child.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    check()
}

/// Whether this process is a child of the one that joined the job.
#[inline]
pub(super) fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Whether this process may call the library.
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

/// Dropped in the process that made it, and not in children: they have no copies of its
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
            // SAFETY: nothing uses it afterwards.
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
