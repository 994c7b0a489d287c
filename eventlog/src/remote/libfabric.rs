//! One-sided commits by a provider of libfabric: the client's port and the server's rings.

use super::delivery::Delivery;
use super::error::RemoteError;
use super::port::{EndpointPort, Port, check_provider};
use super::rings::{Opened, RingEndpoint, RingKey};
use crate::message::RemoteRing;
use crate::ring::{DATA_BYTES, RingMemory};
use core::cmp::Reverse;
use core::hash::BuildHasher;
use core::time::Duration;
use refrain_libfabric::constants::{FI_ENOKEY, FI_MSG, FI_RMA, FI_SOCKADDR_IN};
use refrain_libfabric::{
    Access, Completion, Endpoint, EndpointOptions, Hints, Info, Library, MemoryId, MessageEndpoint,
    RemoteMemory,
};
use refrain_logging::determinant::batch::BATCH_BYTES_MAX;
use refrain_ring::Region;
use std::hash::RandomState;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Sleep of a server whose provider cannot wake it.
const NAP: Duration = Duration::from_millis(1);
/// Maximum number of keys drawn until one is free.
const DRAWS_MAX: usize = 16;
/// The server starts no operations; the provider may need a few for its own purposes.
const OPERATIONS_MAX: usize = 16;

/// Loads libfabric and finds the offer of a provider that both sides open. Addresses of
/// the internet come first, because others need more than an address to be reached;
/// loopback addresses come last.
fn find_offer(library: Option<&Path>, provider: &str) -> Result<(Library, Info), RemoteError> {
    let library = Library::load(library)?;
    let mut offers = offers(&library, Some(provider))?;
    offers.sort_by_key(|info| {
        let is_internet = info.address_format() == FI_SOCKADDR_IN;
        let is_loopback = is_internet && info.source_address().get(4) == Some(&127);
        (Reverse(is_internet), is_loopback)
    });
    match offers.into_iter().next() {
        Some(info) => Ok((library, info)),
        None => Err(no_provider(&library, provider)),
    }
}

fn offers(library: &Library, provider: Option<&str>) -> Result<Vec<Info>, RemoteError> {
    let hints = Hints {
        provider: provider.map(str::to_owned),
        caps: FI_MSG | FI_RMA,
        ..Hints::default()
    };
    match library.infos(&hints) {
        Ok(mut infos) => {
            infos.retain(|info| info.message_bytes_max() >= BATCH_BYTES_MAX);
            Ok(infos)
        }
        Err(error) if error.is_no_data() => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn no_provider(library: &Library, provider: &str) -> RemoteError {
    let mut names: Vec<String> = Vec::new();
    for info in offers(library, None).unwrap_or_default() {
        if !names.contains(&info.provider()) {
            names.push(info.provider());
        }
    }
    RemoteError::Refused(format!(
        "libfabric {} offers no provider {provider:?} here that writes remote memory: choose \
         one of {} (see `refrain info --providers`), or commit by messages",
        library.version(),
        names.join(", ")
    ))
}

/// Opens an endpoint that writes from an image of a ring. It connects with the first
/// write. Writes are requested with *delivery complete*.
pub(super) fn open_port(
    library: Option<&Path>,
    provider: &str,
    remote: &RemoteRing,
    delivery: Delivery,
    room: (&RingMemory, usize),
) -> Result<Box<dyn Port>, RemoteError> {
    let (library, info) = find_offer(library, provider)?;
    check_provider(&info.provider(), remote, delivery)?;
    let (_, writes_max) = room;
    let options = EndpointOptions {
        cq_depth: 2 * writes_max,
        av_count: 1,
        wants_fd: false,
        operations_max: writes_max,
    };
    let endpoint = Endpoint::open(&library, &info, &options)?;
    Ok(Box::new(EndpointPort::over(endpoint, None, remote, room)?))
}

/// See [`RemoteRings`](crate::remote::RemoteRings).
#[derive(Debug)]
struct LibfabricRings {
    endpoint: Endpoint,
    keys: Keys,
    // The contents are not used: kept to reuse the allocation.
    completions: Vec<Completion>,
}

/// Opens an endpoint of a provider for rings.
pub(super) fn open_rings(
    provider: &str,
    library: Option<&Path>,
    clients_max: usize,
) -> Result<Opened, RemoteError> {
    let (library, info) = find_offer(library, provider)?;
    let options = EndpointOptions {
        cq_depth: 0,
        av_count: clients_max,
        wants_fd: true,
        operations_max: OPERATIONS_MAX,
    };
    let endpoint = Endpoint::open(&library, &info, &options)?;
    Ok(Opened {
        provider: info.provider(),
        address: endpoint.name()?,
        revoked_bytes_each: DATA_BYTES,
        endpoint: Box::new(LibfabricRings {
            keys: Keys::of_bytes(info.mr_key_bytes()),
            endpoint,
            completions: Vec::new(),
        }),
    })
}

impl RingEndpoint for LibfabricRings {
    /// Registers memory. Where the provider lets the caller choose the key, each key is drawn
    /// separately and cannot be derived from others.
    fn register(&mut self, data: &Region) -> Result<RingKey, RemoteError> {
        let mut draws = 0;
        loop {
            let drawn = self.keys.draw();
            draws += 1;
            let access = Access::REMOTE_WRITE;
            let result = self.endpoint.register_with_key(data, access, drawn);
            match result {
                Err(error) if error.code() == FI_ENOKEY && draws < DRAWS_MAX => {}
                Ok(memory) => return Ok(RingKey { memory, drawn }),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn remote_key(&self, memory: MemoryId) -> RemoteMemory {
        self.endpoint.remote_key(memory)
    }

    /// A write that the provider has begun to receive may still end, in memory
    /// that is no longer read. FENCE-1
    fn deregister(&mut self, memory: MemoryId) -> Result<(), RemoteError> {
        Ok(self.endpoint.deregister(memory)?)
    }

    fn progress(&mut self) -> Result<(), RemoteError> {
        let result = self.endpoint.poll(&mut self.completions);
        // This side starts no operations: errors here concern connections to clients, which
        // notice them themselves.
        self.completions.clear();
        Ok(result?)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.endpoint.wait_fd()
    }

    fn sleep_max(&mut self, has_clients: bool) -> Option<Duration> {
        match (self.endpoint.has_fd(), has_clients) {
            (true, _) if self.endpoint.may_sleep() => None,
            (true, _) => Some(Duration::ZERO),
            (false, false) => None,
            (false, true) => Some(NAP),
        }
    }
}

/// Draws keys that clients cannot derive from their own, for providers that let the caller
/// choose keys: a faulty or hostile client must not reach the
/// memory of another.
#[derive(Debug)]
struct Keys {
    random: RandomState,
    drawn: u64,
    mask: u64,
}

impl Keys {
    fn of_bytes(bytes: usize) -> Self {
        let bits = 8 * bytes.clamp(1, 8);
        Self {
            random: RandomState::new(),
            drawn: 0,
            mask: u64::MAX >> (64 - bits),
        }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.random.hash_one(self.drawn) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_fit_their_bytes_and_do_not_repeat() {
        for bytes in [4, 8, 9] {
            let mut keys = Keys::of_bytes(bytes);
            let drawn: HashSet<u64> = (0..1000).map(|_| keys.draw()).collect();
            assert!(drawn.len() > 990, "{} different keys", drawn.len());
            assert!(bytes >= 8 || drawn.iter().all(|key| *key < 1 << (8 * bytes)));
            // Keys use the full width: the highest bit is set in about half of them.
            let top = 8 * bytes.min(8) - 1;
            let high = drawn.iter().filter(|key| *key >> top == 1).count();
            assert!((200..800).contains(&high), "{high} with the highest bit");
        }
    }
}
