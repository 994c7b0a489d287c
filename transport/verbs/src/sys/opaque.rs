//! Types that are not accessed: structures behind pointers, and entries of tables that are not
//! called.

use core::ffi::c_void;

pub type ibv_wq = c_void;

/// A function pointer that is not called: it keeps the place of its entry.
pub type not_called = *const c_void;
