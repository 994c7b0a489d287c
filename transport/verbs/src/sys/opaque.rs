//! What is not looked into: structures that the others only point to, and entries of
//! tables that are not called.

use core::ffi::c_void;

pub type ibv_wq = c_void;

/// A function pointer: it keeps the place of the entry.
pub type not_called = *const c_void;
