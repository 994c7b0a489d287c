//! The server's part over libfabric.

use super::offer;
use crate::message::RemoteRing;
use crate::remote::{RemoteError, image};
use crate::ring::{DATA_BYTES, RingMemory};
use core::hash::BuildHasher;
use core::time::Duration;
use refrain_libfabric::constants::FI_ENOKEY;
use refrain_libfabric::{Access, Completion, Endpoint, EndpointOptions, Error, MemoryId};
use std::hash::RandomState;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// How long a server may sleep whose provider cannot wake it.
const NAP: Duration = Duration::from_millis(1);
/// Keys are drawn so many times before one that is free must have come.
const DRAWS_MAX: usize = 16;
/// The server starts no operations; a few for what the provider does itself.
const OPERATIONS_MAX: usize = 16;

/// Names a registered ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::remote) struct RingKey {
    memory: MemoryId,
    drawn: u64,
}

/// See [`RemoteRings`](crate::remote::RemoteRings).
#[derive(Debug)]
pub(in crate::remote) struct LibfabricRings {
    endpoint: Endpoint,
    provider: String,
    address: Vec<u8>,
    live: Vec<RingKey>,
    revoked: usize,
    clients_max: usize,
    keys: Keys,
    // Of no interest: kept for its memory.
    completions: Vec<Completion>,
}

impl LibfabricRings {
    /// Opens an endpoint of a provider for at most that many rings at a time.
    ///
    /// `library`: the file of libfabric, by default the installed one. Call it
    /// before other threads run (see [`refrain_libfabric::Library::load`]).
    ///
    /// # Errors
    /// No libfabric, no such provider, or the provider's.
    pub(in crate::remote) fn open(
        provider: &str,
        library: Option<&Path>,
        clients_max: usize,
    ) -> Result<Self, RemoteError> {
        let (library, info) = offer::open(library, provider)?;
        let options = EndpointOptions {
            cq_depth: 0,
            av_count: clients_max,
            wants_fd: true,
            operations_max: OPERATIONS_MAX,
        };
        let endpoint = Endpoint::open(&library, &info, &options)?;
        Ok(Self {
            provider: info.provider(),
            address: endpoint.name()?,
            keys: Keys::of_bytes(info.mr_key_bytes()),
            endpoint,
            live: Vec::new(),
            revoked: 0,
            clients_max,
            completions: Vec::new(),
        })
    }

    /// Lets one client write into the data of a ring, not into its control page,
    /// and not read. The ring stays mapped until `self` is dropped. Each
    /// registration has a key of its own that cannot be guessed from others
    /// where the provider lets us choose it.
    ///
    /// # Errors
    /// Too many clients, or the provider's: often that less memory may be locked
    /// than is needed (`ulimit -l`).
    pub(in crate::remote) fn register(
        &mut self,
        memory: &RingMemory,
    ) -> Result<(RingKey, RemoteRing), RemoteError> {
        if self.live.len() >= self.clients_max {
            return Err(RemoteError::Clients {
                clients_max: self.clients_max,
            });
        }
        let key = self.register_with_a_free_key(memory)?;
        self.live.push(key);
        let remote = self.endpoint.remote_key(key.memory);
        let ring = RemoteRing {
            provider: self.provider.clone(),
            address: self.address.clone(),
            base: remote.base,
            key: remote.key,
        };
        Ok((key, ring))
    }

    fn register_with_a_free_key(&mut self, memory: &RingMemory) -> Result<RingKey, Error> {
        let region = image::region_of(memory);
        let mut draws = 0;
        loop {
            let drawn = self.keys.draw();
            draws += 1;
            let access = Access::REMOTE_WRITE;
            let result = self
                .endpoint
                .register_with_key(&region, 0, DATA_BYTES, access, drawn);
            match result {
                Err(error) if error.code() == FI_ENOKEY && draws < DRAWS_MAX => {}
                Ok(memory) => return Ok(RingKey { memory, drawn }),
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends what [`LibfabricRings::register`] allowed: writes fail that come from
    /// now on. One whose beginning the provider has taken already may still end,
    /// in memory that nobody reads any more. Revoking again does nothing. FENCE-1
    ///
    /// # Errors
    /// The provider's: writes may still come. Drop `self`, which closes the
    /// endpoint, before the successor is answered.
    pub(in crate::remote) fn revoke(&mut self, key: RingKey) -> Result<(), RemoteError> {
        let Some(index) = self.live.iter().position(|live| *live == key) else {
            return Ok(());
        };
        self.endpoint.deregister(key.memory)?;
        self.live.swap_remove(index);
        self.revoked += 1;
        Ok(())
    }

    /// Lets the provider take in what clients write.
    ///
    /// # Errors
    /// The endpoint is of no use any more: drop it; clients join again.
    pub(in crate::remote) fn progress(&mut self) -> Result<(), RemoteError> {
        let result = self.endpoint.poll(&mut self.completions);
        // This side starts nothing: errors here are of connections to clients,
        // who find out themselves.
        self.completions.clear();
        Ok(result?)
    }

    /// Readable when there is something to [`LibfabricRings::progress`]; `None`: the
    /// provider (`shm`) wakes nobody.
    pub(in crate::remote) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.endpoint.wait_fd()
    }

    /// How long the server may sleep from now on: not at all when something is
    /// left to [`LibfabricRings::progress`], `None`: until the descriptor wakes it.
    pub(in crate::remote) fn sleep_max(&self) -> Option<Duration> {
        match (self.endpoint.has_fd(), self.live.is_empty()) {
            (true, _) if self.endpoint.may_sleep() => None,
            (true, _) => Some(Duration::ZERO),
            (false, true) => None,
            (false, false) => Some(NAP),
        }
    }

    /// The provider in all its layers, as a client must name it.
    pub(in crate::remote) fn provider(&self) -> &str {
        &self.provider
    }

    /// Bytes of revoked rings that stay mapped until `self` is dropped. A server
    /// without remote clients may open itself anew when they have become many.
    pub(in crate::remote) fn revoked_bytes(&self) -> usize {
        self.revoked * DATA_BYTES
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
