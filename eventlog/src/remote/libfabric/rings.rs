//! The server's part over libfabric.

use super::offer;
use crate::remote::RemoteError;
use crate::remote::rings::{Opened, RingEndpoint, RingKey};
use crate::ring::DATA_BYTES;
use core::hash::BuildHasher;
use core::time::Duration;
use refrain_libfabric::constants::FI_ENOKEY;
use refrain_libfabric::{
    Access, Completion, Endpoint, EndpointOptions, MemoryId, MessageEndpoint, RemoteMemory,
};
use refrain_ring::Region;
use std::hash::RandomState;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// How long a server may sleep whose provider cannot wake it.
const NAP: Duration = Duration::from_millis(1);
/// Keys are drawn so many times before one that is free must have come.
const DRAWS_MAX: usize = 16;
/// The server starts no operations; a few for what the provider does itself.
const OPERATIONS_MAX: usize = 16;

/// See [`RemoteRings`](crate::remote::RemoteRings).
#[derive(Debug)]
struct LibfabricRings {
    endpoint: Endpoint,
    keys: Keys,
    // Of no interest: kept for its memory.
    completions: Vec<Completion>,
}

/// Opens an endpoint of a provider for rings.
pub(in crate::remote) fn open(
    provider: &str,
    library: Option<&Path>,
    clients_max: usize,
) -> Result<Opened, RemoteError> {
    let (library, info) = offer::open(library, provider)?;
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
        endpoint: Box::new(LibfabricRings {
            keys: Keys::of_bytes(info.mr_key_bytes()),
            endpoint,
            completions: Vec::new(),
        }),
    })
}

impl RingEndpoint for LibfabricRings {
    /// With a key of its own that cannot be guessed from others, where the provider
    /// lets us choose it.
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

    /// A write whose beginning the provider has taken already may still end, in
    /// memory that nobody reads any more. FENCE-1
    fn deregister(&mut self, memory: MemoryId) -> Result<(), RemoteError> {
        Ok(self.endpoint.deregister(memory)?)
    }

    fn progress(&mut self) -> Result<(), RemoteError> {
        let result = self.endpoint.poll(&mut self.completions);
        // This side starts nothing: errors here are of connections to clients,
        // who find out themselves.
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

    fn revoked_bytes_each(&self) -> usize {
        DATA_BYTES
    }
}

/// Draws keys that clients cannot guess from their own, where providers leave
/// the choice to us: a client that is broken or curious must not reach the
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
            // All of the width is used: the highest bit in about half of them.
            let top = 8 * bytes.min(8) - 1;
            let high = drawn.iter().filter(|key| *key >> top == 1).count();
            assert!((200..800).contains(&high), "{high} with the highest bit");
        }
    }
}
