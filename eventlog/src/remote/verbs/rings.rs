//! The server's part over verbs.

use super::{VERBS, choose_port};
use crate::message::RemoteRing;
use crate::remote::{RemoteError, image};
use crate::ring::{DATA_BYTES, RingMemory};
use core::hash::BuildHasher;
use core::time::Duration;
use refrain_verbs::{Access, Completion, Endpoint, EndpointOptions, Error, MemoryId, PortChoice};
use rustix::io::Errno;
use std::hash::RandomState;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// How long a server may sleep that has clients: the device takes their writes
/// without a word to anybody.
const NAP: Duration = Duration::from_millis(1);
/// The server starts no operations; a few for what the endpoint does itself.
const OPERATIONS_MAX: usize = 64;
/// Clients come again before they are known to be gone.
const PEERS_EACH: usize = 2;

/// Names a registered ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::remote) struct RingKey {
    memory: MemoryId,
    /// Told apart from those of other endpoints by chance.
    opened: u64,
    number: u64,
}

/// See [`RemoteRings`](crate::remote::RemoteRings).
#[derive(Debug)]
pub(in crate::remote) struct VerbsRings {
    endpoint: Endpoint,
    address: Vec<u8>,
    live: Vec<RingKey>,
    clients_max: usize,
    opened: u64,
    /// Rings so far.
    count: u64,
    // Of no interest: kept for its memory.
    completions: Vec<Completion>,
}

impl VerbsRings {
    pub(in crate::remote) fn open(
        library: Option<&Path>,
        port: &PortChoice,
        clients_max: usize,
    ) -> Result<Self, RemoteError> {
        let (library, chosen) = choose_port(library, port)?;
        let options = EndpointOptions {
            operations_max: OPERATIONS_MAX,
            peers_max: PEERS_EACH * clients_max,
            receives_max: 1,
            inject_bytes: 0,
            // Clients are told the address in their welcome, and nobody else is.
            accepts_unknown: true,
            ..EndpointOptions::default()
        };
        let endpoint = Endpoint::open(&library, &chosen, &options)?;
        Ok(Self {
            address: endpoint.name()?,
            endpoint,
            live: Vec::new(),
            clients_max,
            opened: RandomState::new().hash_one(0),
            count: 0,
            completions: Vec::new(),
        })
    }

    pub(in crate::remote) fn register(
        &mut self,
        memory: &RingMemory,
    ) -> Result<(RingKey, RemoteRing), RemoteError> {
        if self.live.len() >= self.clients_max {
            return Err(RemoteError::Clients {
                clients_max: self.clients_max,
            });
        }
        let region = image::region_of(memory);
        // The read behind each write is allowed with it.
        let access = Access::REMOTE_WRITE;
        let registered = self.endpoint.register(&region, 0, DATA_BYTES, access);
        let memory = registered.map_err(|error| match error.errno() {
            code if code == Errno::FAULT.raw_os_error() => RemoteError::RingFile(error),
            _ => error.into(),
        })?;
        let key = RingKey {
            memory,
            opened: self.opened,
            number: self.count,
        };
        self.count += 1;
        self.live.push(key);
        let remote = self.endpoint.remote_key(memory);
        let ring = RemoteRing {
            provider: VERBS.to_owned(),
            address: self.address.clone(),
            base: remote.base,
            key: remote.key,
        };
        Ok((key, ring))
    }

    /// The device writes nothing there any more when this returns. FENCE-1
    pub(in crate::remote) fn revoke(&mut self, key: RingKey) -> Result<(), Error> {
        let Some(index) = self.live.iter().position(|live| *live == key) else {
            return Ok(());
        };
        self.endpoint.deregister(key.memory)?;
        self.live.swap_remove(index);
        Ok(())
    }

    pub(in crate::remote) fn progress(&mut self) -> Result<(), Error> {
        let result = self.endpoint.poll(&mut self.completions);
        self.completions.clear();
        result
    }

    pub(in crate::remote) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.endpoint.wait_fd()
    }

    pub(in crate::remote) fn sleep_max(&mut self) -> Option<Duration> {
        match (self.endpoint.may_sleep(), self.live.is_empty()) {
            (false, _) => Some(Duration::ZERO),
            (true, true) => None,
            (true, false) => Some(NAP),
        }
    }
}
