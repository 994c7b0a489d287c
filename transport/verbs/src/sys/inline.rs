//! The calls of the data path, which the headers of libibverbs define as inline
//! functions: through the table of functions in a device's context.

#![allow(unsafe_code, reason = "calls through the driver's table of functions")]

use super::types::{ibv_cq, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_srq, ibv_wc};
use core::ffi::c_int;

/// The error of an operation that a driver does not have; every driver has these.
const NO_OPERATION: c_int = libc::EOPNOTSUPP;

/// `ibv_poll_cq(3)`: how many completions were written, or a negative number.
///
/// # Safety
/// The queue is open and used by no other thread; there is room for `count`.
#[inline]
pub unsafe fn ibv_poll_cq(queue: *mut ibv_cq, count: c_int, completions: *mut ibv_wc) -> c_int {
    // SAFETY: an open queue has a context, and that its table.
    unsafe {
        match (*(*queue).context).ops.poll_cq {
            Some(poll) => poll(queue, count, completions),
            None => -NO_OPERATION,
        }
    }
}

/// `ibv_req_notify_cq(3)`: an event for the next completion.
///
/// # Safety
/// The queue is open.
#[inline]
pub unsafe fn ibv_req_notify_cq(queue: *mut ibv_cq) -> c_int {
    // SAFETY: an open queue has a context, and that its table.
    unsafe {
        match (*(*queue).context).ops.req_notify_cq {
            Some(request) => request(queue, 0),
            None => NO_OPERATION,
        }
    }
}

/// `ibv_post_send(3)`: 0, or an error number; `bad` is the first request that
/// was not taken.
///
/// # Safety
/// The queue pair is open and used by no other thread; the chain of requests and
/// what it points to is whole, and memory that is sent from, read or written
/// stays so until the completion.
#[inline]
pub unsafe fn ibv_post_send(
    pair: *mut ibv_qp,
    requests: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: an open queue pair has a context, and that its table.
    unsafe {
        match (*(*pair).context).ops.post_send {
            Some(post) => post(pair, requests, bad),
            None => NO_OPERATION,
        }
    }
}

/// `ibv_post_recv(3)`, likewise.
///
/// # Safety
/// As of [`ibv_post_send`], and the memory is the device's until the completion.
#[inline]
pub unsafe fn ibv_post_recv(
    pair: *mut ibv_qp,
    requests: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: an open queue pair has a context, and that its table.
    unsafe {
        match (*(*pair).context).ops.post_recv {
            Some(post) => post(pair, requests, bad),
            None => NO_OPERATION,
        }
    }
}

/// `ibv_post_srq_recv(3)`, likewise.
///
/// # Safety
/// As of [`ibv_post_recv`].
#[inline]
pub unsafe fn ibv_post_srq_recv(
    queue: *mut ibv_srq,
    requests: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: an open queue has a context, and that its table.
    unsafe {
        match (*(*queue).context).ops.post_srq_recv {
            Some(post) => post(queue, requests, bad),
            None => NO_OPERATION,
        }
    }
}
