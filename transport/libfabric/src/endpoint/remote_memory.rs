//! Reading and writing the memory of peers.

#![allow(unsafe_code, reason = "hands memory to the provider")]

use super::message::out_of_bounds;
use super::{Endpoint, PeerAddress, closed};
use crate::constants::{FI_COMPLETION, FI_DELIVERY_COMPLETE};
use crate::sys::attributes::{fi_msg_rma, fi_rma_iov};
use crate::sys::inline;
use crate::{Error, Kind, MemoryId, Part, Refused};
use core::ffi::c_void;
use core::ptr::NonNull;
use libc::iovec;

/// The two sides of one read or write.
struct Transfer {
    peer: PeerAddress,
    local: *mut c_void,
    bytes: usize,
    descriptor: *mut c_void,
    remote_address: u64,
    key: u64,
}

impl Endpoint {
    /// Reads `bytes` bytes of a peer's memory into `to`. `remote_address` is the
    /// peer's [`crate::RemoteMemory::base`] plus an offset. The completion
    /// brings `token` back.
    ///
    /// `local` names the registered memory that `to` lies in; a provider with
    /// `FI_MR_LOCAL` cannot do without.
    ///
    /// # Errors
    /// See [`Refused`].
    ///
    /// # Safety
    /// `to .. to + bytes` stays writable and is not touched by anybody until the
    /// completion with the token was returned. Closing the endpoint ends that
    /// too, but for reads of the `shm` provider that the peer answers, which may
    /// still come: there the memory must stay until the peer is gone as well.
    #[expect(
        clippy::too_many_arguments,
        reason = "the two sides of a transfer, as in fi_read(3)"
    )]
    #[inline]
    pub unsafe fn read(
        &mut self,
        from: PeerAddress,
        to: NonNull<u8>,
        bytes: usize,
        local: Option<MemoryId>,
        remote_address: u64,
        key: u64,
        token: u64,
    ) -> Result<(), Refused> {
        let descriptor = match local {
            Some(memory) => self.descriptor(memory).ok_or_else(out_of_bounds)?,
            None if self.limits.must_register => return Err(must_register().into()),
            None => core::ptr::null_mut(),
        };
        let transfer = Transfer {
            peer: from,
            local: to.as_ptr().cast(),
            bytes,
            descriptor,
            remote_address,
            key,
        };
        self.transfer(&transfer, Kind::Read, FI_COMPLETION, token)
    }

    /// Writes a part of registered memory into a peer's memory.
    /// `remote_address` is the peer's [`crate::RemoteMemory::base`] plus an
    /// offset. The completion brings `token` back; until then nobody may write
    /// the part. With `delivery_complete` it comes when the bytes are in the
    /// peer's memory, without when the part is free.
    ///
    /// # Errors
    /// See [`Refused`]; also a part that is not within registered memory.
    #[inline]
    pub fn write(
        &mut self,
        to: PeerAddress,
        part: Part,
        remote_address: u64,
        key: u64,
        delivery_complete: bool,
        token: u64,
    ) -> Result<(), Refused> {
        let (local, descriptor) = self.locate(&part).ok_or_else(out_of_bounds)?;
        let transfer = Transfer {
            peer: to,
            local: local.cast(),
            bytes: part.bytes,
            descriptor,
            remote_address,
            key,
        };
        let delivery = if delivery_complete {
            FI_DELIVERY_COMPLETE
        } else {
            0
        };
        self.transfer(&transfer, Kind::Write, FI_COMPLETION | delivery, token)
    }

    #[inline]
    fn transfer(
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
            addr: transfer.remote_address,
            len: transfer.bytes,
            key: transfer.key,
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
        // SAFETY: the endpoint is open; local memory and context stay until the
        // completion, as `read` demands of its caller and `locate` checked.
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
fn must_register() -> Error {
    Error::invalid(
        Kind::Read.attempted(),
        "this provider reads into registered memory only (FI_MR_LOCAL)",
    )
}
