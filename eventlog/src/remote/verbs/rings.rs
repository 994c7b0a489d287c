//! The server's part over verbs.

use super::{VERBS, choose_port};
use crate::remote::RemoteError;
use crate::remote::rings::{Opened, RingEndpoint, RingKey};
use core::hash::BuildHasher;
use core::time::Duration;
use refrain_ring::Region;
use refrain_verbs::{
    Access, Completion, Endpoint, EndpointOptions, MemoryId, MessageEndpoint, PortChoice,
    RemoteMemory,
};
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

/// See [`RemoteRings`](crate::remote::RemoteRings).
#[derive(Debug)]
struct VerbsRings {
    endpoint: Endpoint,
    /// Tells its keys from those of other endpoints, by chance.
    drawn: u64,
    // Of no interest: kept for its memory.
    completions: Vec<Completion>,
}

/// Opens an endpoint at a port for rings.
pub(in crate::remote) fn open(
    library: Option<&Path>,
    port: &PortChoice,
    clients_max: usize,
) -> Result<Opened, RemoteError> {
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
    Ok(Opened {
        provider: VERBS.to_owned(),
        address: endpoint.name()?,
        endpoint: Box::new(VerbsRings {
            endpoint,
            drawn: RandomState::new().hash_one(0),
            completions: Vec::new(),
        }),
    })
}

impl RingEndpoint for VerbsRings {
    fn register(&mut self, data: &Region) -> Result<RingKey, RemoteError> {
        // The read behind each write is allowed with it.
        let access = Access::REMOTE_WRITE;
        let registered = self.endpoint.register(data, access);
        let memory = registered.map_err(|error| match error.errno() {
            code if code == Errno::FAULT.raw_os_error() => RemoteError::RingFile(error),
            _ => error.into(),
        })?;
        let drawn = self.drawn;
        Ok(RingKey { memory, drawn })
    }

    fn remote_key(&self, memory: MemoryId) -> RemoteMemory {
        self.endpoint.remote_key(memory)
    }

    /// The device writes nothing there any more when this returns. FENCE-1
    fn deregister(&mut self, memory: MemoryId) -> Result<(), RemoteError> {
        Ok(self.endpoint.deregister(memory)?)
    }

    fn progress(&mut self) -> Result<(), RemoteError> {
        let result = self.endpoint.poll(&mut self.completions);
        self.completions.clear();
        Ok(result?)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.endpoint.wait_fd()
    }

    fn sleep_max(&mut self, has_clients: bool) -> Option<Duration> {
        match (self.endpoint.may_sleep(), has_clients) {
            (false, _) => Some(Duration::ZERO),
            (true, false) => None,
            (true, true) => Some(NAP),
        }
    }

    fn revoked_bytes_each(&self) -> usize {
        0
    }
}
