//! Implements the contract of endpoints, [`MessageEndpoint`], over libibverbs.

#![allow(unsafe_code, reason = "hands memory to the device")]

use super::address::Address;
use super::message::too_long;
use super::peers::Peer;
use super::posting::Request;
use super::registration::{ATTEMPTED, Registration, out_of_bounds};
use super::remote_memory::remote_key;
use super::send_queue::Role;
use super::{Completion, Endpoint, PeerAddress, closed};
use crate::sys::constants::{IBV_SEND_INLINE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE};
use crate::sys::types::ibv_sge;
use crate::{Access, Error, Kind, MemoryId, Part, Refused, RemoteMemory, TOKEN_OF_INJECTED};
use core::ptr::NonNull;
use refrain_libfabric::native::{EndpointError, MessageEndpoint, Removal};
use refrain_ring::Region;
use std::os::fd::BorrowedFd;

/// At least one of this number of sends to one peer is signalled.
const SIGNALLED_EVERY: usize = 16;

impl EndpointError for Error {
    fn attempted(&self) -> &str {
        self.attempted()
    }

    fn words(&self) -> &str {
        self.words()
    }
}

impl MessageEndpoint for Endpoint {
    type Peer = PeerAddress;
    type Error = Error;

    /// A device retransmits packets that were not acknowledged, with the same numbers, and the
    /// other device drops those that it has received already. The header of a message that is sent
    /// twice is not in the log, and marks it as a repetition.
    const TAKEN_IS_FREE: bool = true;
    const LATE_COMPLETIONS: usize = SIGNALLED_EVERY;

    fn register(&mut self, region: &Region, access: Access) -> Result<MemoryId, Error> {
        let open = self.open_mut()?;
        let registered = &mut open.registrations.0;
        let memory = MemoryId::of_registration(registered.len(), region.bytes())
            .map_err(|words| Error::invalid(ATTEMPTED, words))?;
        let device = &open.device;
        let registration = Registration::new(device.library(), &device.domain, region, access)?;
        registered.push(Some(registration));
        Ok(memory)
    }

    /// The key of deregistered memory does not exist.
    ///
    /// # Panics
    /// When the memory was registered with another endpoint.
    fn remote_key(&self, memory: MemoryId) -> RemoteMemory {
        let open = self.open.as_ref();
        open.map_or_else(RemoteMemory::default, |open| {
            open.registrations.remote_key(memory)
        })
    }

    /// The name contains the address for greetings and the identity of this endpoint. If unknown
    /// clients are accepted, it is a secret: any process that knows it may connect.
    fn name(&self) -> Result<Vec<u8>, Error> {
        let open = self.open.as_ref().ok_or_else(closed)?;
        let address = Address {
            identity: open.identity,
            contact: open.port.contact,
        };
        Ok(address.encode())
    }

    /// Begins to connect. Until the connection is established, operations are refused with
    /// [`Refused::Again`]. A peer that has greeted first is known already and keeps its address.
    fn insert(&mut self, name: &[u8]) -> Result<PeerAddress, Error> {
        let open = self.open_mut()?;
        let address = Address::decode(name)?;
        let known = |peer: &&Peer| peer.identity == address.identity;
        if let Some(peer) = open.peers.iter().find(known) {
            let address = peer.address;
            open.unknown_clients.remove(address);
            return Ok(address);
        }
        open.insert(address)
    }

    /// When this returns, the peer can no longer read or write memory of this endpoint, and its
    /// greetings are ignored from now on (FENCE-1). Waits some milliseconds for the device.
    fn remove(&mut self, peer: PeerAddress) -> Result<Removal, Error> {
        self.open_mut()?.remove(peer).map(|()| Removal::Over)
    }

    fn inject_bytes(&self) -> usize {
        self.inject_bytes
    }

    fn reads_into_registered_only(&self) -> bool {
        true
    }

    fn fails_namelessly(&self) -> bool {
        false
    }

    /// The completion means that the peer's device has the message.
    #[inline]
    fn send(&mut self, to: PeerAddress, parts: &[Part], token: u64) -> Result<(), Refused> {
        let open = self.open_mut()?;
        let gathered = open.gather(parts, open.message_bytes)?;
        open.send_message(to, gathered, Role::Told(Kind::Send), token, 0)
    }

    #[inline]
    fn inject(&mut self, to: PeerAddress, parts: &[Part]) -> Result<(), Refused> {
        let open = self.open_mut()?;
        let gathered = open.gather(parts, open.inline_bytes as usize)?;
        let flag = match gathered.bytes {
            0 => 0,
            _ => IBV_SEND_INLINE,
        };
        open.send_message(to, gathered, Role::Untold, TOKEN_OF_INJECTED, flag)
    }

    /// Posts a receive. A longer message completes with an error, and its connection is replaced.
    ///
    /// Receives are passed to the device in chains. If the device has only few receives, the next
    /// poll passes them.
    #[inline]
    fn receive(&mut self, part: Part, token: u64) -> Result<(), Refused> {
        let open = self.open_mut()?;
        let (addr, lkey) = open.registrations.locate(&part).ok_or_else(out_of_bounds)?;
        let length =
            u32::try_from(part.bytes).map_err(|_| too_long(part.bytes, u32::MAX as usize))?;
        let piece = ibv_sge { addr, length, lkey };
        if !open.receives.begin(piece, token) {
            return Err(Refused::Full);
        }
        if open.receives.has_chain() {
            open.receives.post(&open.device, &mut open.counters)?;
        }
        Ok(())
    }

    // SAFETY: callers promise what the trait requires.
    #[inline]
    unsafe fn read(
        &mut self,
        from: PeerAddress,
        (to, local): (NonNull<u8>, Option<MemoryId>),
        bytes: usize,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused> {
        // Reads need registered memory: see `reads_into_registered_only`.
        let local = local.ok_or(Refused::Full)?;
        let open = self.open_mut()?;
        let addr = to.as_ptr().addr() as u64;
        let within = open.registrations.key_of(local, addr, bytes);
        let lkey = within.ok_or_else(out_of_bounds)?;
        let length = open.length(bytes)?;
        let key = remote_key(remote.key)?;
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
            remote_address: remote.base,
            key,
        };
        // SAFETY: the memory is registered, and the caller promises the rest.
        unsafe { open.post(id, core::slice::from_mut(&mut request), Kind::Read) }
    }

    /// A read of the last bytes follows the write, and completes when the bytes are in the peer's
    /// memory (EL-1).
    #[inline]
    fn write(
        &mut self,
        to: PeerAddress,
        part: Part,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused> {
        let open = self.open_mut()?;
        let (addr, lkey) = open.registrations.locate(&part).ok_or_else(out_of_bounds)?;
        let length = open.length(part.bytes)?;
        let key = remote_key(remote.key)?;
        let id = open.ready_pair(to, 2)?;
        let mut piece = ibv_sge { addr, length, lkey };
        let mut read_back = open.read_back.piece(part.bytes);
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
        // SAFETY: the part is in registered memory that the caller does not touch; the bytes that
        // are read back go to memory that has no other use.
        unsafe { open.post(id, &mut [write, read], Kind::Write) }
    }

    fn is_connected(&self, peer: PeerAddress) -> bool {
        let open = self.open.as_ref();
        let peer = open.and_then(|open| open.peers.get(peer));
        peer.is_some_and(|peer| peer.is_established)
    }

    /// Reads completions; also makes and replaces connections.
    #[inline]
    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), Error> {
        self.open_mut()?.poll(out)
    }

    fn has_sent_all(&mut self) -> bool {
        self.open.as_mut().is_none_or(|open| open.has_sent_all())
    }

    fn may_sleep(&mut self) -> bool {
        let Some(open) = self.open.as_mut() else {
            return false;
        };
        open.may_sleep().unwrap_or_else(|error| {
            // The next poll reports the error.
            open.progress.fatal = Some(error);
            false
        })
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.open.as_ref()?.waiting.descriptor())
    }

    /// Waits some milliseconds for the device.
    fn close(&mut self) -> Result<(), Error> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        self.counters = open.counters;
        open.close()
    }
}
