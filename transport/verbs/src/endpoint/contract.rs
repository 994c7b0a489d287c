//! The calls of an endpoint over libibverbs, by the contract of both libraries.

#![allow(unsafe_code, reason = "passes on what users promise of a read")]

use super::address::Address;
use super::closed;
use crate::{
    Access, Completion, Endpoint, Error, MemoryId, Part, PeerAddress, Refused, RemoteMemory,
};
use core::ptr::NonNull;
use refrain_libfabric::native::{EndpointError, MessageEndpoint, Removal};
use refrain_ring::Region;
use std::os::fd::BorrowedFd;

/// Of this many sends to one peer at least one says when it is over.
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

    /// A device sends again what was not acknowledged to it, whole packets with the
    /// numbers they had: the other device drops those that its rank has seen. A
    /// message that was sent twice says in its header, which is not in the log, that
    /// it came before.
    const TAKEN_IS_FREE: bool = true;
    const LATE_COMPLETIONS: usize = SIGNALLED_EVERY;

    fn register(&mut self, region: &Region, access: Access) -> Result<MemoryId, Error> {
        self.open_mut()?.register(region, access)
    }

    /// Of memory that was given up, a key that does not exist.
    ///
    /// # Panics
    /// The memory was registered with another endpoint.
    fn remote_key(&self, memory: MemoryId) -> RemoteMemory {
        let open = self.open.as_ref();
        open.map_or_else(RemoteMemory::default, |open| {
            open.registrations.remote_key(memory)
        })
    }

    /// It says where greetings go, and names this endpoint. It is a secret if unknown
    /// peers are accepted: any process that knows it may connect then.
    fn name(&self) -> Result<Vec<u8>, Error> {
        let open = self.open.as_ref().ok_or_else(closed)?;
        let address = Address {
            identity: open.identity,
            contact: open.port.contact,
        };
        Ok(address.encode())
    }

    /// Begins to connect. Until that is done, operations are refused with
    /// [`Refused::Again`]. A peer that is known, because it greeted first, keeps its
    /// address.
    fn insert(&mut self, name: &[u8]) -> Result<PeerAddress, Error> {
        self.open_mut()?.insert_name(name)
    }

    /// When this returns, the peer reads and writes no memory of this endpoint any more,
    /// and it will not be heard again under the same address (FENCE-1). Waits some
    /// milliseconds for the device.
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

    /// The completion says that the peer's device has the message.
    #[inline]
    fn send(&mut self, to: PeerAddress, parts: &[Part], token: u64) -> Result<(), Refused> {
        self.open_mut()?.send(to, parts, token)
    }

    #[inline]
    fn inject(&mut self, to: PeerAddress, parts: &[Part]) -> Result<(), Refused> {
        self.open_mut()?.inject(to, parts)
    }

    /// A longer message completes with an error, and its connection is made anew.
    #[inline]
    fn receive(&mut self, part: Part, token: u64) -> Result<(), Refused> {
        self.open_mut()?.receive(part, token)
    }

    // SAFETY: callers promise what the trait demands.
    #[inline]
    unsafe fn read(
        &mut self,
        from: PeerAddress,
        (to, local): (NonNull<u8>, Option<MemoryId>),
        bytes: usize,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused> {
        // See `reads_into_registered_only`.
        let local = local.ok_or(Refused::Full)?;
        // SAFETY: what this function asks of its caller.
        unsafe {
            self.open_mut()?
                .read(from, (to, local), bytes, remote, token)
        }
    }

    /// A read of the last bytes follows the write, and completes when they lie in the
    /// peer's memory (EL-1).
    #[inline]
    fn write(
        &mut self,
        to: PeerAddress,
        part: Part,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused> {
        self.open_mut()?.write(to, part, remote, token)
    }

    fn is_connected(&self, peer: PeerAddress) -> bool {
        let open = self.open.as_ref();
        let peer = open.and_then(|open| open.peers.get(peer));
        peer.is_some_and(|peer| peer.is_established)
    }

    /// Makes and mends connections, too.
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
            // The next poll reports it.
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
