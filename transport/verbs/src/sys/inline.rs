//! The calls of the data path. The headers of libibverbs define them as inline functions that use
//! the table of functions in a device's context.

#![allow(unsafe_code, reason = "calls through the driver's table of functions")]

use super::types::{ibv_cq, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_srq, ibv_wc};
use core::ffi::c_int;

/// The error of an operation that a driver lacks; every driver has these.
const NO_OPERATION: c_int = libc::EOPNOTSUPP;

/// `ibv_poll_cq(3)`: returns the number of completions written, or a negative number.
///
/// # Safety
/// The queue is open, no other thread uses it, and there is room for `count` completions.
#[inline]
pub unsafe fn ibv_poll_cq(queue: *mut ibv_cq, count: c_int, completions: *mut ibv_wc) -> c_int {
    // SAFETY: an open queue has a context with a table.
    unsafe {
        match (*(*queue).context).ops.poll_cq {
            Some(poll) => poll(queue, count, completions),
            None => -NO_OPERATION,
        }
    }
}

/// `ibv_req_notify_cq(3)`: requests an event for the next completion.
///
/// # Safety
/// The queue is open.
#[inline]
pub unsafe fn ibv_req_notify_cq(queue: *mut ibv_cq) -> c_int {
    // SAFETY: an open queue has a context with a table.
    unsafe {
        match (*(*queue).context).ops.req_notify_cq {
            Some(request) => request(queue, 0),
            None => NO_OPERATION,
        }
    }
}

/// `ibv_post_send(3)`: returns 0 or an error number; `bad` is the first request that was not taken.
///
/// # Safety
/// The queue pair is open, and no other thread uses it. The chain of requests and everything that
/// it points to is valid; memory that is sent from, read or written stays valid until the
/// completion.
#[inline]
pub unsafe fn ibv_post_send(
    pair: *mut ibv_qp,
    requests: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: an open queue pair has a context with a table.
    unsafe {
        match (*(*pair).context).ops.post_send {
            Some(post) => post(pair, requests, bad),
            None => NO_OPERATION,
        }
    }
}

/// `ibv_post_recv(3)`: returns as [`ibv_post_send`].
///
/// # Safety
/// As for [`ibv_post_send`]; the memory belongs to the device until the completion.
#[inline]
pub unsafe fn ibv_post_recv(
    pair: *mut ibv_qp,
    requests: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: an open queue pair has a context with a table.
    unsafe {
        match (*(*pair).context).ops.post_recv {
            Some(post) => post(pair, requests, bad),
            None => NO_OPERATION,
        }
    }
}

/// `ibv_post_srq_recv(3)`: returns as [`ibv_post_send`].
///
/// # Safety
/// As for [`ibv_post_recv`].
#[inline]
pub unsafe fn ibv_post_srq_recv(
    queue: *mut ibv_srq,
    requests: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: an open queue has a context with a table.
    unsafe {
        match (*(*queue).context).ops.post_srq_recv {
            Some(post) => post(queue, requests, bad),
            None => NO_OPERATION,
        }
    }
}
