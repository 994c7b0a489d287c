//! libfabric's endpoint by the contract of both libraries.

#![allow(unsafe_code, reason = "passes on what users promise of a read")]

use crate::constants::FI_MR_LOCAL;
use crate::native::{EndpointError, MessageEndpoint, Removal};
use crate::native_methods;
use crate::{
    Access, Completion, Endpoint, Error, MemoryId, Part, PeerAddress, Refused, RemoteMemory,
};
use core::ptr::NonNull;
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

impl MessageEndpoint for Endpoint {
    type Peer = PeerAddress;
    type Error = Error;

    /// What a provider still does with it, nobody knows.
    const TAKEN_IS_FREE: bool = false;
    /// Every send completes by itself.
    const LATE_COMPLETIONS: usize = 0;

    native_methods!();

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
        // SAFETY: what this function asks of its caller.
        unsafe { self.read(from, to, bytes, local, remote.base, remote.key, token) }
    }

    /// Providers take over what is injected.
    fn has_sent_all(&mut self) -> bool {
        true
    }
}
