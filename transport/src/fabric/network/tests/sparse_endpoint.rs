//! An endpoint without a device: the test decides what completes.

#![allow(
    unsafe_code,
    reason = "declares what the fabric must promise of a read"
)]

use core::fmt;
use core::ptr::NonNull;
use refrain_libfabric::native::{Access, Kind, MemoryId, Part, Refused, RemoteMemory};
use refrain_libfabric::native::{CompletionOf, EndpointError, MessageEndpoint, Removal};
use refrain_ring::Region;
use std::os::fd::BorrowedFd;

#[derive(Clone, Debug)]
pub struct Trouble;

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("trouble")
    }
}

impl EndpointError for Trouble {
    fn attempted(&self) -> &str {
        "try"
    }

    fn words(&self) -> &str {
        "trouble"
    }
}

pub type Over = CompletionOf<SparseEndpoint>;

pub fn over(token: u64, peer: u32, outcome: Result<(), Trouble>) -> Over {
    Over {
        token,
        kind: Kind::Send,
        bytes: 0,
        peer: Some(peer),
        outcome,
    }
}

/// Takes everything, and reports the completions that the test puts into `over`.
#[derive(Debug, Default)]
pub struct SparseEndpoint {
    pub peers: u32,
    /// Tokens of sends and reads, each with the peer.
    pub tokens: Vec<(u64, u32)>,
    pub over: Vec<Over>,
    pub is_behind: bool,
    /// Maximum bytes that are injected.
    pub inject_bytes: usize,
    /// Whether it refuses everything now.
    pub refuses: bool,
}

impl MessageEndpoint for SparseEndpoint {
    type Peer = u32;
    type Error = Trouble;

    const TAKEN_IS_FREE: bool = true;
    const LATE_COMPLETIONS: usize = 16;

    fn register(&mut self, _region: &Region, _access: Access) -> Result<MemoryId, Trouble> {
        MemoryId::of_registration(0, 1).map_err(|_| Trouble)
    }

    fn remote_key(&self, _memory: MemoryId) -> RemoteMemory {
        RemoteMemory::default()
    }

    fn name(&self) -> Result<Vec<u8>, Trouble> {
        Ok(vec![7])
    }

    fn insert(&mut self, _name: &[u8]) -> Result<u32, Trouble> {
        self.peers += 1;
        Ok(self.peers)
    }

    fn remove(&mut self, peer: u32) -> Result<Removal, Trouble> {
        self.tokens.retain(|(_, of)| *of != peer);
        Ok(Removal::Over)
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

    fn send(&mut self, to: u32, _parts: &[Part], token: u64) -> Result<(), Refused<Trouble>> {
        if self.refuses {
            return Err(Refused::Again);
        }
        self.tokens.push((token, to));
        Ok(())
    }

    fn inject(&mut self, _to: u32, parts: &[Part]) -> Result<(), Refused<Trouble>> {
        let bytes: usize = parts.iter().map(|part| part.bytes).sum();
        assert!(bytes <= self.inject_bytes, "that is not so short");
        if self.refuses {
            return Err(Refused::Again);
        }
        Ok(())
    }

    fn receive(&mut self, _part: Part, _token: u64) -> Result<(), Refused<Trouble>> {
        Ok(())
    }

    // SAFETY: nothing is written anywhere.
    unsafe fn read(
        &mut self,
        from: u32,
        _to: (NonNull<u8>, Option<MemoryId>),
        _bytes: usize,
        _remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused<Trouble>> {
        self.tokens.push((token, from));
        Ok(())
    }

    fn write(
        &mut self,
        _to: u32,
        _part: Part,
        _remote: RemoteMemory,
        _token: u64,
    ) -> Result<(), Refused<Trouble>> {
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Over>) -> Result<(), Trouble> {
        out.append(&mut self.over);
        Ok(())
    }

    fn has_sent_all(&mut self) -> bool {
        !self.is_behind
    }

    fn may_sleep(&mut self) -> bool {
        true
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn close(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
}
