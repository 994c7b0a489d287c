//! One-sided commits directly by verbs: the client's port and the server's rings.

use super::delivery::{Delivery, VERBS};
use super::error::RemoteError;
use super::port::{EndpointPort, Port, check_provider};
use super::rings::{Opened, RingEndpoint, RingKey};
use crate::message::RemoteRing;
use crate::ring::RingMemory;
use core::hash::BuildHasher;
use core::time::Duration;
use refrain_ring::Region;
use refrain_verbs::{
    Access, Chosen, Completion, Endpoint, EndpointOptions, Library, MemoryId, MessageEndpoint,
    PortChoice, RemoteMemory, choose,
};
use rustix::io::Errno;
use std::hash::RandomState;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Sleep of a server with clients: the device does not signal their writes.
const NAP: Duration = Duration::from_millis(1);
/// The server starts no operations; the endpoint needs a few for its own purposes.
const OPERATIONS_MAX: usize = 64;
/// Peers per client: a client may reconnect before the server knows that it was gone.
const PEERS_EACH: usize = 2;
/// Requests per write: the write and the read behind it.
const REQUESTS_EACH: usize = 2;
/// After this time of refusals the device takes no writes, or the logger's port is not
/// connected.
const REFUSED_MAX: Duration = Duration::from_secs(10);

/// Loads libibverbs and chooses a port.
fn choose_port(
    library: Option<&Path>,
    wanted: &PortChoice,
) -> Result<(Library, Chosen), RemoteError> {
    let library = Library::load(library)?;
    let chosen = choose(&library.devices()?, wanted)?;
    Ok((library, chosen))
}

/// Opens an endpoint that writes from an image of a ring, and begins to connect. A read
/// of its last bytes follows each write: when the read completes, the bytes are in the
/// logger's memory. EL-1
pub(super) fn open_port(
    library: Option<&Path>,
    port: &PortChoice,
    remote: &RemoteRing,
    delivery: Delivery,
    room: (&RingMemory, usize),
) -> Result<Box<dyn Port>, RemoteError> {
    check_provider(VERBS, remote, delivery)?;
    let (library, chosen) = choose_port(library, port)?;
    let (_, writes_max) = room;
    let options = EndpointOptions {
        operations_max: REQUESTS_EACH * writes_max,
        peers_max: 1,
        receives_max: 1,
        inject_bytes: 0,
        ..EndpointOptions::default()
    };
    let endpoint = Endpoint::open(&library, &chosen, &options)?;
    let mut port = EndpointPort::over(endpoint, Some(REFUSED_MAX), remote, room)?;
    // Sends the first greeting now, not with the first batch.
    port.poll(&mut |_| ())?;
    Ok(Box::new(port))
}

/// See [`RemoteRings`](crate::remote::RemoteRings).
#[derive(Debug)]
struct VerbsRings {
    endpoint: Endpoint,
    /// A random number that distinguishes its keys from those of other endpoints.
    drawn: u64,
    // The contents are not used: kept to reuse the allocation.
    completions: Vec<Completion>,
}

/// Opens an endpoint at a port for rings.
pub(super) fn open_rings(
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
        // Only welcomed clients know the address.
        accepts_unknown: true,
        ..EndpointOptions::default()
    };
    let endpoint = Endpoint::open(&library, &chosen, &options)?;
    Ok(Opened {
        provider: VERBS.to_owned(),
        address: endpoint.name()?,
        revoked_bytes_each: 0,
        endpoint: Box::new(VerbsRings {
            endpoint,
            drawn: RandomState::new().hash_one(0),
            completions: Vec::new(),
        }),
    })
}

impl RingEndpoint for VerbsRings {
    fn register(&mut self, data: &Region) -> Result<RingKey, RemoteError> {
        // Includes the read behind each write.
        let access = Access::REMOTE_WRITE;
        let registered = self.endpoint.register(data, access);
        let memory = registered.map_err(|error| match error.errno() {
            code if code == Errno::FAULT.raw_os_error() => RemoteError::Refused(format!(
                "the event ring cannot be registered ({error}): since Linux 6.5 devices may not \
                 write files of disks; start the logger with --rings and a folder in memory, \
                 such as one in /dev/shm"
            )),
            _ => error.into(),
        })?;
        let drawn = self.drawn;
        Ok(RingKey { memory, drawn })
    }

    fn remote_key(&self, memory: MemoryId) -> RemoteMemory {
        self.endpoint.remote_key(memory)
    }

    /// After this returns, the device writes nothing there. FENCE-1
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
}
