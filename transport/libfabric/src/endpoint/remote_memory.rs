//! Reads and writes of peers' memory.

#![allow(unsafe_code, reason = "hands memory to the provider")]

use super::{Endpoint, PeerAddress, closed};
use crate::error::{Error, Refused};
use crate::native::{Kind, RemoteMemory};
use crate::sys::attributes::{fi_msg_rma, fi_rma_iov};
use crate::sys::inline;
use core::ffi::c_void;
use libc::iovec;

/// The two sides of one read or write.
pub(super) struct Transfer {
    pub(super) peer: PeerAddress,
    pub(super) local: *mut c_void,
    pub(super) bytes: usize,
    pub(super) descriptor: *mut c_void,
    pub(super) remote: RemoteMemory,
}

impl Endpoint {
    #[inline]
    pub(super) fn transfer(
        &mut self,
        transfer: &Transfer,
        kind: Kind,
        flags: u64,
        token: u64,
    ) -> Result<(), Refused> {
        let endpoint = self.objects.as_ref().ok_or_else(closed)?.endpoint.raw();
        let begun = self.operations.begin(kind, token, transfer.bytes);
        let (index, context) = begun.ok_or(Refused::Full)?;
        let local = iovec {
            iov_base: transfer.local,
            iov_len: transfer.bytes,
        };
        let remote = fi_rma_iov {
            addr: transfer.remote.base,
            len: transfer.bytes,
            key: transfer.remote.key,
        };
        let mut descriptor = transfer.descriptor;
        let message = fi_msg_rma {
            msg_iov: &raw const local,
            desc: &raw mut descriptor,
            iov_count: 1,
            addr: transfer.peer.0,
            rma_iov: &raw const remote,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        // SAFETY: the endpoint is open; local memory and context stay valid until the completion,
        // as `read` requires of its caller and `locate` has checked.
        let status = unsafe {
            if kind == Kind::Read {
                inline::fi_readmsg(endpoint, &message, flags)
            } else {
                inline::fi_writemsg(endpoint, &message, flags)
            }
        };
        self.started(Some(index), kind, status)
    }
}

#[cold]
pub(super) fn must_register() -> Error {
    Error::invalid(
        Kind::Read.attempted(),
        "this provider reads into registered memory only (FI_MR_LOCAL)",
    )
}
