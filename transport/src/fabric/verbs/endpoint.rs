//! The endpoint over libibverbs as one that the network takes.

#![allow(unsafe_code, reason = "passes on what the fabric promises of a read")]

use crate::fabric::network::{
    Access, Completion, EndpointError, MessageEndpoint, Refused, RemoteMemory, Removal,
};
use core::ptr::NonNull;
use refrain_ring::Region;
use refrain_verbs::{Endpoint, Error, MemoryId, Part, PeerAddress};
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

impl Completion for refrain_verbs::Completion {
    type Error = Error;
    type Peer = PeerAddress;

    #[inline]
    fn token(&self) -> u64 {
        self.token
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn outcome(&self) -> Result<(), &Error> {
        self.outcome.as_ref().copied()
    }

    fn peer(&self) -> Option<PeerAddress> {
        self.peer
    }
}

#[inline]
fn refused(refused: refrain_verbs::Refused) -> Refused<Error> {
    match refused {
        refrain_verbs::Refused::Again => Refused::Again,
        refrain_verbs::Refused::Full => Refused::Full,
        refrain_verbs::Refused::Failed(error) => Refused::Failed(error),
    }
}

impl MessageEndpoint for Endpoint {
    type Memory = MemoryId;
    type Peer = PeerAddress;
    type Part = Part;
    type Error = Error;
    type Completion = refrain_verbs::Completion;

    /// A device sends again what was not acknowledged to it, whole packets with the
    /// numbers they had: the other device drops those that its rank has seen. A
    /// message that was sent twice says in its header, which is not in the log, that
    /// it came before.
    const TAKEN_IS_FREE: bool = true;
    const LATE_COMPLETIONS: usize = SIGNALLED_EVERY;

    fn register(&mut self, region: &Region, access: Access) -> Result<MemoryId, Error> {
        let access = match access {
            Access::Local => refrain_verbs::Access::LOCAL,
            Access::ReadByPeers => {
                refrain_verbs::Access::LOCAL | refrain_verbs::Access::REMOTE_READ
            }
        };
        self.register(region, 0, region.bytes(), access)
    }

    fn remote_memory(&self, memory: MemoryId) -> RemoteMemory {
        let refrain_verbs::RemoteMemory { key, base } = self.remote_key(memory);
        RemoteMemory { key, base }
    }

    #[inline]
    fn part(memory: MemoryId, offset: usize, bytes: usize) -> Part {
        Part {
            memory,
            offset,
            bytes,
        }
    }

    fn name(&self) -> Result<Vec<u8>, Error> {
        self.name()
    }

    fn insert(&mut self, name: &[u8]) -> Result<PeerAddress, Error> {
        self.insert(name)
    }

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

    #[inline]
    fn send(&mut self, to: PeerAddress, parts: &[Part], token: u64) -> Result<(), Refused<Error>> {
        self.send(to, parts, token).map_err(refused)
    }

    #[inline]
    fn inject(&mut self, to: PeerAddress, parts: &[Part]) -> Result<(), Refused<Error>> {
        self.inject(to, parts).map_err(refused)
    }

    #[inline]
    fn receive(&mut self, part: Part, token: u64) -> Result<(), Refused<Error>> {
        self.receive(part, token).map_err(refused)
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
    ) -> Result<(), Refused<Error>> {
        let Some(local) = local else {
            // See `reads_into_registered_only`.
            return Err(Refused::Full);
        };
        // SAFETY: what this function asks of its caller.
        unsafe { self.read(from, to, bytes, local, remote.base, remote.key, token) }
            .map_err(refused)
    }

    #[inline]
    fn poll(&mut self, out: &mut Vec<refrain_verbs::Completion>) -> Result<(), Error> {
        self.poll(out)
    }

    fn has_sent_all(&mut self) -> bool {
        self.has_sent_all()
    }

    fn may_sleep(&mut self) -> bool {
        self.may_sleep()
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wait_fd()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.close()
    }
}
