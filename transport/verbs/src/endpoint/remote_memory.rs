//! Reading and writing the memory of peers.

#![allow(unsafe_code, reason = "hands memory to the device")]

use super::device::Device;
use super::message::too_long;
use super::posting::Request;
use super::registration::{Registration, out_of_bounds};
use super::send_queue::Role;
use super::{Open, PeerAddress};
use crate::sys::constants::{IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE};
use crate::sys::types::ibv_sge;
use crate::{Access, Error, Kind, MemoryId, Part, Refused, RemoteMemory};
use core::ptr::NonNull;
use refrain_ring::Region;

/// So much of what was written is read back.
const READ_BACK_BYTES: usize = 8;

impl Open {
    /// # Safety
    /// `to .. to + bytes` is not touched until the completion with the token was
    /// returned, the peer was removed, or the endpoint closed.
    #[inline]
    pub(super) unsafe fn read(
        &mut self,
        from: PeerAddress,
        (to, local): (NonNull<u8>, MemoryId),
        bytes: usize,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused> {
        let addr = to.as_ptr().addr() as u64;
        let lkey = self
            .registrations
            .key_of(local, addr, bytes)
            .ok_or_else(out_of_bounds)?;
        let length = self.length(bytes)?;
        let key = remote_key(remote.key)?;
        let id = self.ready_pair(from, 1)?;
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
            remote_address: remote.base,
            key,
        };
        // SAFETY: the memory is registered, and the caller's promise.
        unsafe { self.post(id, core::slice::from_mut(&mut request), Kind::Read) }
    }

    /// Two requests: a write, and a read of the last bytes behind it.
    #[inline]
    pub(super) fn write(
        &mut self,
        to: PeerAddress,
        part: Part,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused> {
        let (addr, lkey) = self.registrations.locate(&part).ok_or_else(out_of_bounds)?;
        let length = self.length(part.bytes)?;
        let key = remote_key(remote.key)?;
        let id = self.ready_pair(to, 2)?;
        let mut piece = ibv_sge { addr, length, lkey };
        let mut read_back = self.read_back.piece(part.bytes);
        let last = u64::from(length) - u64::from(read_back.length);
        let write = Request {
            role: Role::Half,
            token,
            bytes: length,
            must_signal: false,
            opcode: IBV_WR_RDMA_WRITE,
            flags: 0,
            pieces: &raw mut piece,
            count: usize::from(length > 0),
            remote_address: remote.base,
            key,
        };
        let read = Request {
            role: Role::Told(Kind::Write),
            must_signal: true,
            opcode: IBV_WR_RDMA_READ,
            pieces: &raw mut read_back,
            remote_address: remote.base.wrapping_add(last),
            ..write
        };
        // SAFETY: the part is of registered memory that the caller leaves alone;
        // what is read back goes to memory that is not used otherwise.
        unsafe { self.post(id, &mut [write, read], Kind::Write) }
    }

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
        let region = Region::pages(READ_BACK_BYTES);
        let library = device.library();
        let access = Access::LOCAL;
        let memory = Registration::new(library, &device.domain, &region, access)?;
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
