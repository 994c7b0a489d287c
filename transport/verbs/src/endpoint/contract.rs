//! The endpoint over libibverbs by the contract of both libraries.

#![allow(unsafe_code, reason = "passes on what users promise of a read")]

use crate::{
    Access, Completion, Endpoint, Error, MemoryId, Part, PeerAddress, Refused, RemoteMemory,
};
use core::ptr::NonNull;
use refrain_libfabric::native::{EndpointError, MessageEndpoint, Removal};
use refrain_libfabric::native_methods;
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

    native_methods!();

    fn remove(&mut self, peer: PeerAddress) -> Result<Removal, Error> {
        self.remove(peer).map(|()| Removal::Over)
    }

    fn inject_bytes(&self) -> usize {
        self.inject_bytes()
    }

    fn reads_into_registered_only(&self) -> bool {
        true
    }

    fn fails_namelessly(&self) -> bool {
        false
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
        let Some(local) = local else {
            // See `reads_into_registered_only`.
            return Err(Refused::Full);
        };
        // SAFETY: what this function asks of its caller.
        unsafe { self.read(from, to, bytes, local, remote.base, remote.key, token) }
    }

    fn has_sent_all(&mut self) -> bool {
        self.has_sent_all()
    }

    fn is_connected(&self, peer: PeerAddress) -> bool {
        self.is_connected(peer)
    }
}
