//! libfabric's endpoint as one that the network takes.

#![allow(unsafe_code, reason = "passes on what the fabric promises of a read")]

use crate::fabric::network::{
    Access, Completion, EndpointError, MessageEndpoint, Refused, RemoteMemory, Removal,
};
use core::ptr::NonNull;
use refrain_libfabric::constants::FI_MR_LOCAL;
use refrain_libfabric::{Endpoint, Error, MemoryId, Part, PeerAddress};
use refrain_ring::Region;
use std::os::fd::BorrowedFd;

impl EndpointError for Error {
    fn attempted(&self) -> &str {
        self.attempted()
    }

    fn words(&self) -> &str {
        self.words()
    }
}

impl Completion for refrain_libfabric::Completion {
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
        None
    }
}

#[inline]
fn refused(refused: refrain_libfabric::Refused) -> Refused<Error> {
    match refused {
        refrain_libfabric::Refused::Again => Refused::Again,
        refrain_libfabric::Refused::Full => Refused::Full,
        refrain_libfabric::Refused::Failed(error) => Refused::Failed(error),
    }
}

impl MessageEndpoint for Endpoint {
    type Memory = MemoryId;
    type Peer = PeerAddress;
    type Part = Part;
    type Error = Error;
    type Completion = refrain_libfabric::Completion;

    /// What a provider still does with it, nobody knows.
    const TAKEN_IS_FREE: bool = false;
    /// Every send completes by itself.
    const LATE_COMPLETIONS: usize = 0;

    fn register(&mut self, region: &Region, access: Access) -> Result<MemoryId, Error> {
        let access = match access {
            Access::Local => refrain_libfabric::Access::LOCAL,
            Access::ReadByPeers => {
                refrain_libfabric::Access::LOCAL | refrain_libfabric::Access::REMOTE_READ
            }
        };
        self.register(region, 0, region.bytes(), access)
    }

    fn remote_memory(&self, memory: MemoryId) -> RemoteMemory {
        let refrain_libfabric::RemoteMemory { key, base } = self.remote_key(memory);
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
        self.remove(peer).map(|()| Removal::Completing)
    }

    fn inject_bytes(&self) -> usize {
        self.info().inject_bytes()
    }

    fn reads_into_registered_only(&self) -> bool {
        self.info().mr_mode() & FI_MR_LOCAL != 0
    }

    /// `shm`, 1.17 and 2.5.
    fn fails_namelessly(&self) -> bool {
        self.info().provider() == "shm"
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
        // SAFETY: what this function asks of its caller.
        unsafe { self.read(from, to, bytes, local, remote.base, remote.key, token) }
            .map_err(refused)
    }

    #[inline]
    fn poll(&mut self, out: &mut Vec<refrain_libfabric::Completion>) -> Result<(), Error> {
        self.poll(out)
    }

    /// Providers take over what is injected.
    fn has_sent_all(&mut self) -> bool {
        true
    }

    fn may_sleep(&mut self) -> bool {
        Endpoint::may_sleep(self)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wait_fd()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.close()
    }
}
