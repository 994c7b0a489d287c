//! Types that are not accessed: structures behind pointers, and entries of tables that are not
//! called.

use core::ffi::c_void;

pub type fid_nic = c_void;
pub type fid_wait = c_void;
pub type fi_ops_ep = c_void;
pub type fi_ops_tagged = c_void;
pub type fi_ops_atomic = c_void;
pub type fi_ops_collective = c_void;

/// A function pointer that is not called: it keeps the place of its entry.
pub type not_called = *const c_void;
