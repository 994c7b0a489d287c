//! Reading and writing the memory of peers.

#![allow(unsafe_code, reason = "hands memory to the device")]

use super::device::Device;
use super::message::too_long;
use super::posting::Request;
use super::registration::{Registration, out_of_bounds};
use super::send_queue::Role;
use super::{Endpoint, Open, PeerAddress, closed};
use crate::sys::constants::{IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE};
use crate::sys::types::ibv_sge;
use crate::{Access, Error, Kind, MemoryId, Part, Refused};
use core::ptr::NonNull;
use refrain_ring::Region;

/// So much of what was written is read back.
const READ_BACK_BYTES: usize = 8;

impl Endpoint {
    /// Reads `bytes` bytes of a peer's memory into `to`, which lies in the
    /// registered memory `local`. `remote_address` is the peer's
    /// [`crate::RemoteMemory::base`] plus an offset. The completion brings `token`
    /// back.
    ///
    /// # Errors
    /// See [`Refused`]; also memory that is not within `local`.
    ///
    /// # Safety
    /// `to .. to + bytes` is not touched by anybody until the completion with the
    /// token was returned, or the peer was removed, or the endpoint closed.
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
        local: MemoryId,
        remote_address: u64,
        key: u64,
        token: u64,
    ) -> Result<(), Refused> {
        let open = self.open.as_mut().ok_or_else(closed)?;
        let addr = to.as_ptr().addr() as u64;
        let lkey = open
            .registrations
            .key_of(local, addr, bytes)
            .ok_or_else(out_of_bounds)?;
        let length = open.length(bytes)?;
        let key = remote_key(key)?;
        let id = open.ready_pair(from, 1)?;
        let mut piece = ibv_sge { addr, length, lkey };
        let mut request = Request {
            role: Role::Told(Kind::Read),
            token,
            bytes: length,
            must_signal: true,
            opcode: IBV_WR_RDMA_READ,
            flags: 0,
            pieces: &raw mut piece,
            count: usize::from(length > 0),
            remote_address,
            key,
        };
        // SAFETY: the memory is registered, and the caller's promise.
        unsafe { open.post(id, core::slice::from_mut(&mut request), Kind::Read) }
    }

    /// Writes a part of registered memory into a peer's memory.
    /// `remote_address` is the peer's [`crate::RemoteMemory::base`] plus an
    /// offset. The completion brings `token` back; until then nobody may write
    /// the part. With `placed` it comes when the bytes lie in the peer's memory
    /// (EL-1): a read of the last of them goes behind the write. Without, it comes
    /// when the part is free.
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
        placed: bool,
        token: u64,
    ) -> Result<(), Refused> {
        let open = self.open.as_mut().ok_or_else(closed)?;
        let (addr, lkey) = open.registrations.locate(&part).ok_or_else(out_of_bounds)?;
        let length = open.length(part.bytes)?;
        let key = remote_key(key)?;
        let id = open.ready_pair(to, 1 + usize::from(placed))?;
        let mut piece = ibv_sge { addr, length, lkey };
        let mut read_back = open.read_back.piece(part.bytes);
        let write = Request {
            role: match placed {
                true => Role::Half,
                false => Role::Told(Kind::Write),
            },
            token,
            bytes: length,
            must_signal: false,
            opcode: IBV_WR_RDMA_WRITE,
            flags: 0,
            pieces: &raw mut piece,
            count: usize::from(length > 0),
            remote_address,
            key,
        };
        let read = Request {
            role: Role::Told(Kind::Write),
            token,
            bytes: length,
            must_signal: true,
            opcode: IBV_WR_RDMA_READ,
            flags: 0,
            pieces: &raw mut read_back,
            count: usize::from(length > 0),
            remote_address: remote_address
                .wrapping_add(u64::from(length) - u64::from(read_back.length)),
            key,
        };
        let mut requests = [write, read];
        let count = 1 + usize::from(placed);
        // SAFETY: the part is of registered memory that the caller leaves alone;
        // what is read back goes where nobody looks.
        unsafe { open.post(id, &mut requests[..count], Kind::Write) }
    }
}

impl Open {
    #[inline]
    fn length(&self, bytes: usize) -> Result<u32, Refused> {
        match u32::try_from(bytes) {
            Ok(length) if bytes <= self.message_bytes => Ok(length),
            _ => Err(too_long(bytes, self.message_bytes)),
        }
    }
}

#[inline]
fn remote_key(key: u64) -> Result<u32, Refused> {
    u32::try_from(key).map_err(|_| no_key(key))
}

#[cold]
fn no_key(key: u64) -> Refused {
    Error::invalid(
        "start an operation",
        format!("{key:#x} is no key of verbs: they have 32 bits"),
    )
    .into()
}

/// Where the ends of what was written are read to. Nobody looks at them.
pub(super) struct ReadBack {
    memory: Registration,
}

impl ReadBack {
    pub(super) fn new(device: &Device) -> Result<Self, Error> {
        let region = Region::heap(READ_BACK_BYTES);
        let library = device.library();
        let access = Access::LOCAL;
        let memory =
            Registration::new(library, &device.domain, &region, 0, READ_BACK_BYTES, access)?;
        Ok(Self { memory })
    }

    /// For the end of a write of that many bytes.
    #[inline]
    fn piece(&self, bytes: usize) -> ibv_sge {
        ibv_sge {
            addr: self.memory.address(0),
            length: bytes.min(READ_BACK_BYTES) as u32,
            lkey: self.memory.local_key(),
        }
    }

    pub(super) fn close(self) -> Result<(), Error> {
        self.memory.close()
    }
}
