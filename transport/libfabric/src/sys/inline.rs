//! The inline functions of libfabric's headers, in Rust.
//!
//! Each calls through the object's table of functions, after a check of the table's `size`: a
//! provider of another version may have fewer entries, and a provider may omit a table that was not
//! requested. Such calls return `-FI_ENOSYS`.
//!
//! # Safety
//! For all functions here: objects are open, and were opened by the calls that the manual pages
//! name; pointers are valid as the call's manual page requires; buffers and contexts of operations
//! stay valid until the operation has completed.

#![allow(unsafe_code, reason = "calls through libfabric's tables of functions")]

use super::attributes::*;
use super::constants::{FI_ENABLE, FI_ENOSYS, FI_GETWAIT};
use super::objects::*;
use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::ptr::null_mut;

/// `FI_CHECK_OP` and the call: `call!(object.table, entry(arguments))`.
macro_rules! call {
    ($object:ident.$table:ident, $entry:ident($($argument:expr),*)) => {{
        // SAFETY: the object is open, and its table is valid as long. An entry is read only if the
        // table is long enough to contain it. The caller's arguments are as the manual page
        // requires.
        unsafe {
            let table = (*$object).$table;
            let has_entry = !table.is_null() && {
                let entry = &raw const (*table).$entry;
                (*table).size > entry.addr() - table.addr()
            };
            let entry = if has_entry { (*table).$entry } else { None };
            match entry {
                Some(entry) => entry($($argument),*),
                None => (-FI_ENOSYS) as _,
            }
        }
    }};
}

/// # Safety
/// As for the module.
pub unsafe fn fi_close(object: *mut fid) -> c_int {
    call!(object.ops, close(object))
}

/// # Safety
/// As for the module.
pub unsafe fn fi_bind(object: *mut fid, other: *mut fid, flags: u64) -> c_int {
    call!(object.ops, bind(object, other, flags))
}

/// # Safety
/// As for the module.
pub unsafe fn fi_control(object: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    call!(object.ops, control(object, command, argument))
}

/// `fi_enable` of an endpoint, `fi_mr_enable` of a registration.
///
/// # Safety
/// As for the module.
pub unsafe fn fi_enable(object: *mut fid) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fi_control(object, FI_ENABLE, null_mut()) }
}

/// The file descriptor of a queue that was opened with `FI_WAIT_FD`.
///
/// # Safety
/// As for the module.
pub unsafe fn get_wait_fd(queue: *mut fid, fd: &mut c_int) -> c_int {
    // SAFETY: as the caller promises; the command writes one int.
    unsafe { fi_control(queue, FI_GETWAIT, core::ptr::from_mut(fd).cast()) }
}

/// # Safety
/// As for the module.
pub unsafe fn fi_domain(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
) -> c_int {
    call!(fabric.ops, domain(fabric, info, domain, null_mut()))
}

/// # Safety
/// As for the module.
pub unsafe fn fi_trywait(fabric: *mut fid_fabric, objects: &mut [*mut fid]) -> c_int {
    call!(
        fabric.ops,
        trywait(fabric, objects.as_mut_ptr(), objects.len() as c_int)
    )
}

/// # Safety
/// As for the module.
pub unsafe fn fi_endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    endpoint: *mut *mut fid_ep,
) -> c_int {
    call!(domain.ops, endpoint(domain, info, endpoint, null_mut()))
}

/// # Safety
/// As for the module.
pub unsafe fn fi_av_open(
    domain: *mut fid_domain,
    attributes: *mut fi_av_attr,
    vector: *mut *mut fid_av,
) -> c_int {
    call!(domain.ops, av_open(domain, attributes, vector, null_mut()))
}

/// # Safety
/// As for the module.
pub unsafe fn fi_cq_open(
    domain: *mut fid_domain,
    attributes: *mut fi_cq_attr,
    queue: *mut *mut fid_cq,
) -> c_int {
    call!(domain.ops, cq_open(domain, attributes, queue, null_mut()))
}

/// # Safety
/// As for the module.
pub unsafe fn fi_mr_reg(
    domain: *mut fid_domain,
    memory: *const c_void,
    bytes: usize,
    access: u64,
    requested_key: u64,
    registration: *mut *mut fid_mr,
) -> c_int {
    call!(
        domain.mr,
        reg(
            &raw mut (*domain).fid,
            memory,
            bytes,
            access,
            0,
            requested_key,
            0,
            registration,
            null_mut()
        )
    )
}

/// # Safety
/// As for the module.
pub unsafe fn fi_av_insert(
    vector: *mut fid_av,
    address: *const c_void,
    handle: &mut fi_addr_t,
) -> c_int {
    call!(
        vector.ops,
        insert(vector, address, 1, handle, 0, null_mut())
    )
}

/// # Safety
/// As for the module.
pub unsafe fn fi_av_remove(vector: *mut fid_av, handle: &mut fi_addr_t) -> c_int {
    call!(vector.ops, remove(vector, handle, 1, 0))
}

/// # Safety
/// As for the module.
pub unsafe fn fi_getname(endpoint: *mut fid_ep, address: *mut c_void, bytes: &mut usize) -> c_int {
    call!(
        endpoint.cm,
        getname(&raw mut (*endpoint).fid, address, bytes)
    )
}

/// # Safety
/// As for the module.
#[inline]
pub unsafe fn fi_cq_read(queue: *mut fid_cq, entries: *mut c_void, count: usize) -> isize {
    call!(queue.ops, read(queue, entries, count))
}

/// # Safety
/// As for the module; after `entry` there is more room than the entry of API 1.17 needs.
pub unsafe fn fi_cq_readerr(queue: *mut fid_cq, entry: *mut fi_cq_err_entry) -> isize {
    call!(queue.ops, readerr(queue, entry, 0))
}

/// The provider's text for an error, or null.
///
/// # Safety
/// As for the module.
pub unsafe fn fi_cq_strerror(
    queue: *mut fid_cq,
    entry: &fi_cq_err_entry,
    text: &mut [u8],
) -> *const c_char {
    // SAFETY: the queue is open, and its table has `size` bytes.
    unsafe {
        let table = (*queue).ops;
        if table.is_null() || (*table).size <= offset_of!(fi_ops_cq, strerror) {
            return core::ptr::null();
        }
        (*table).strerror.map_or(core::ptr::null(), |strerror| {
            strerror(
                queue,
                entry.prov_errno,
                entry.err_data,
                text.as_mut_ptr().cast(),
                text.len(),
            )
        })
    }
}

/// # Safety
/// As for the module.
#[inline]
pub unsafe fn fi_recv(
    endpoint: *mut fid_ep,
    memory: *mut c_void,
    bytes: usize,
    descriptor: *mut c_void,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    call!(
        endpoint.msg,
        recv(endpoint, memory, bytes, descriptor, from, context)
    )
}

/// # Safety
/// As for the module.
#[inline]
pub unsafe fn fi_sendmsg(endpoint: *mut fid_ep, message: &fi_msg, flags: u64) -> isize {
    call!(endpoint.msg, sendmsg(endpoint, message, flags))
}

/// # Safety
/// As for the module.
#[inline]
pub unsafe fn fi_readmsg(endpoint: *mut fid_ep, message: &fi_msg_rma, flags: u64) -> isize {
    call!(endpoint.rma, readmsg(endpoint, message, flags))
}

/// # Safety
/// As for the module.
#[inline]
pub unsafe fn fi_writemsg(endpoint: *mut fid_ep, message: &fi_msg_rma, flags: u64) -> isize {
    call!(endpoint.rma, writemsg(endpoint, message, flags))
}
