//! The server's part: rings that clients write into by RMA.

use super::delivery::VERBS;
use super::error::RemoteError;
use super::{image, libfabric, verbs};
use crate::message::RemoteRing;
use crate::ring::RingMemory;
use core::fmt::Debug;
use core::time::Duration;
use refrain_libfabric::native::{MemoryId, RemoteMemory};
use refrain_ring::Region;
use refrain_verbs::PortChoice;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Names a registered ring. Another [`RemoteRings`] does not accept it, except by a rare
/// coincidence of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingKey {
    pub(super) memory: MemoryId,
    pub(super) drawn: u64,
}

/// Loads the libfabric of a provider before other threads run, as
/// [`load`](refrain_libfabric::Library::load) demands; [`RemoteRings::open`] then
/// finds it loaded, and reports errors.
pub fn load_ahead(provider: &str, library: Option<&Path>) -> Option<refrain_libfabric::Library> {
    match provider {
        VERBS => None,
        _ => refrain_libfabric::Library::load(library).ok(),
    }
}

/// An endpoint's functions that rings use.
pub(super) trait RingEndpoint: Debug + Send {
    /// Lets peers write into a region.
    ///
    /// # Errors
    /// The provider's error.
    fn register(&mut self, data: &Region) -> Result<RingKey, RemoteError>;

    /// The address and key with which peers write into the memory.
    fn remote_key(&self, memory: MemoryId) -> RemoteMemory;

    /// Revokes the access that [`RingEndpoint::register`] gave.
    ///
    /// # Errors
    /// The provider's error: peers may still write.
    fn deregister(&mut self, memory: MemoryId) -> Result<(), RemoteError>;

    /// Processes what peers write.
    ///
    /// # Errors
    /// The endpoint has failed and cannot be used again.
    fn progress(&mut self) -> Result<(), RemoteError>;

    /// Readable when [`RingEndpoint::progress`] has work, if the provider has a descriptor.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Maximum time that the caller may sleep now; `None`: until the descriptor wakes it. The
    /// call itself may process what peers write.
    fn sleep_max(&mut self, has_clients: bool) -> Option<Duration>;
}

/// An endpoint with the data that clients need to reach it.
#[derive(Debug)]
pub(super) struct Opened {
    /// The provider's name with all its layers.
    pub provider: String,
    /// The endpoint's address, which clients insert.
    pub address: Vec<u8>,
    pub endpoint: Box<dyn RingEndpoint>,
    /// Bytes of a revoked ring that stay mapped until the endpoint is closed.
    pub revoked_bytes_each: usize,
}

/// Rings of this process that clients write into by RMA.
///
/// In the server's poll loop:
///
/// 1. Add [`RemoteRings::descriptor`], if there is one, to the poll set;
///    it does not change.
/// 2. After every wake-up call [`RemoteRings::progress`], whatever the source: with
///    most providers the peers' writes advance only in this call. Then drain the rings.
/// 3. When there is nothing to do, call [`RemoteRings::sleep_max`]. With some providers it
///    completes writes that have arrived meanwhile, without waking the server: drain the
///    rings once more.
/// 4. If they were empty, sleep at most that long.
///
/// When a client joins: [`RemoteRings::register`] its ring, and put the result into the
/// welcome. When it is fenced or gone: call [`RemoteRings::progress`]
/// once more, [`RemoteRings::revoke`], *then* drain its ring for the last time
/// and close it, *then* answer its successor. FENCE-1
#[derive(Debug)]
pub struct RemoteRings {
    opened: Opened,
    live: Vec<RingKey>,
    revoked: usize,
    clients_max: usize,
}

impl RemoteRings {
    /// Opens an endpoint for at most `clients_max` rings at a time, by a provider of
    /// libfabric or by [`VERBS`].
    ///
    /// `library`: the file of libfabric or libibverbs, by default the installed
    /// one, see [`load_ahead`]. `port`: the device and port that
    /// verbs uses.
    ///
    /// # Errors
    /// No library, no such provider or port, or an error of the provider.
    pub fn open(
        provider: &str,
        library: Option<&Path>,
        port: &PortChoice,
        clients_max: usize,
    ) -> Result<Self, RemoteError> {
        let opened = match provider {
            VERBS => verbs::open_rings(library, port, clients_max)?,
            _ => libfabric::open_rings(provider, library, clients_max)?,
        };
        Ok(Self {
            opened,
            live: Vec::new(),
            revoked: 0,
            clients_max,
        })
    }

    /// Lets one client write into the data of a ring, not into its control page.
    /// With verbs the client can also read the data, which confirms its writes; with
    /// libfabric it cannot. The ring stays mapped until `self` is dropped, or with
    /// verbs until it is revoked. Each registration has its own key, which
    /// cannot be derived from others if the provider lets the caller choose it.
    ///
    /// # Errors
    /// Too many clients, or an error of the provider: often the limit of locked memory
    /// is too low (`ulimit -l`).
    pub fn register(&mut self, memory: &RingMemory) -> Result<(RingKey, RemoteRing), RemoteError> {
        if self.live.len() >= self.clients_max {
            return Err(RemoteError::Refused(format!(
                "{} clients already write into this logger's memory: commit by messages",
                self.clients_max
            )));
        }
        let opened = &mut self.opened;
        let key = opened.endpoint.register(&image::region_of(memory))?;
        self.live.push(key);
        let remote = opened.endpoint.remote_key(key.memory);
        let ring = RemoteRing {
            provider: opened.provider.clone(),
            address: opened.address.clone(),
            base: remote.base,
            key: remote.key,
        };
        Ok((key, ring))
    }

    /// Revokes the access that [`RemoteRings::register`] gave: later writes fail.
    /// A write that a provider of libfabric has begun to receive may still end, in
    /// memory that is no longer read. Revoking again does nothing. FENCE-1
    ///
    /// # Errors
    /// The provider's error: clients may still write. Drop `self`, which closes the
    /// endpoint, before the successor is answered.
    pub fn revoke(&mut self, key: RingKey) -> Result<(), RemoteError> {
        let Some(index) = self.live.iter().position(|live| *live == key) else {
            return Ok(());
        };
        self.opened.endpoint.deregister(key.memory)?;
        self.live.swap_remove(index);
        self.revoked += 1;
        Ok(())
    }

    /// Makes the provider process what clients write.
    ///
    /// # Errors
    /// The endpoint has failed: drop `self`; clients join again.
    pub fn progress(&mut self) -> Result<(), RemoteError> {
        self.opened.endpoint.progress()
    }

    /// Readable when there is something to [`RemoteRings::progress`]; `None`: the
    /// provider (`shm`) does not wake the server.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.opened.endpoint.descriptor()
    }

    /// Maximum time that the server may sleep from now on: zero when
    /// [`RemoteRings::progress`] has work left, `None`: until the descriptor wakes it. This
    /// call may process what clients write (`fi_trywait` of `tcp` advances its
    /// connections): read the rings after it, and then sleep.
    pub fn sleep_max(&mut self) -> Option<Duration> {
        let has_clients = self.has_clients();
        self.opened.endpoint.sleep_max(has_clients)
    }

    /// The provider with all its layers, as a client must name it.
    pub fn provider(&self) -> &str {
        &self.opened.provider
    }

    /// Whether any client has access.
    pub fn has_clients(&self) -> bool {
        !self.live.is_empty()
    }

    /// Bytes of revoked rings that stay mapped until `self` is dropped. A server
    /// reopens its endpoint when they exceed a limit.
    pub fn revoked_bytes(&self) -> usize {
        self.revoked * self.opened.revoked_bytes_each
    }
}
