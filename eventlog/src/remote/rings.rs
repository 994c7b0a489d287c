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

/// Names a registered ring. Another [`RemoteRings`] does not know it, but for an
/// accident of chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingKey {
    pub(super) memory: MemoryId,
    pub(super) drawn: u64,
}

/// Loads the libfabric of a provider before other threads run, which
/// [its loading](refrain_libfabric::Library::load) demands; [`RemoteRings::open`] then
/// finds it loaded, and reports errors.
pub fn load_ahead(provider: &str, library: Option<&Path>) -> Option<refrain_libfabric::Library> {
    match provider {
        VERBS => None,
        _ => refrain_libfabric::Library::load(library).ok(),
    }
}

/// What rings need of an endpoint.
pub(super) trait RingEndpoint: Debug + Send {
    /// Lets peers write there.
    ///
    /// # Errors
    /// The provider's.
    fn register(&mut self, data: &Region) -> Result<RingKey, RemoteError>;

    /// What peers need to write there.
    fn remote_key(&self, memory: MemoryId) -> RemoteMemory;

    /// Ends what [`RingEndpoint::register`] allowed.
    ///
    /// # Errors
    /// The provider's: writes may still come.
    fn deregister(&mut self, memory: MemoryId) -> Result<(), RemoteError>;

    /// Takes in what peers write.
    ///
    /// # Errors
    /// The endpoint is of no use any more.
    fn progress(&mut self) -> Result<(), RemoteError>;

    /// Readable when there is something to take in, if it can say so.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// How long the caller may sleep now; `None`: until the descriptor wakes it. It
    /// may take in what peers write.
    fn sleep_max(&mut self, has_clients: bool) -> Option<Duration>;
}

/// An endpoint, and how clients reach it.
#[derive(Debug)]
pub(super) struct Opened {
    /// In all its layers.
    pub provider: String,
    /// For clients to insert.
    pub address: Vec<u8>,
    pub endpoint: Box<dyn RingEndpoint>,
    /// Bytes of a revoked ring that stay mapped until the endpoint is closed.
    pub revoked_bytes_each: usize,
}

/// Rings of this process that clients write into by RMA.
///
/// In the server's poll loop:
///
/// 1. Put [`RemoteRings::descriptor`], where there is one, among what is waited
///    for; it does not change.
/// 2. After every wake-up call [`RemoteRings::progress`], whatever woke: with
///    most providers the peers' writes move only then. Then drain the rings.
/// 3. When there is nothing to do, ask [`RemoteRings::sleep_max`]. It takes in what has
///    come meanwhile with some providers, without waking the server: drain the rings once
///    more.
/// 4. If there was nothing, sleep no longer than it said.
///
/// When a client comes: [`RemoteRings::register`] its ring, and put what that
/// returns into the welcome. When it is fenced or gone: [`RemoteRings::progress`]
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
    /// Opens an endpoint of a provider for at most that many rings at a time: of
    /// libfabric's, or [`VERBS`].
    ///
    /// `library`: the file of libfabric or libibverbs, by default the installed
    /// one, see [`load_ahead`]. `port`: which port of which device is
    /// used by verbs.
    ///
    /// # Errors
    /// No library, no such provider or port, or the provider's.
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
    /// By verbs it can read them, too, which says that its writes are there; by
    /// libfabric it cannot. The ring stays mapped until `self` is dropped, or by
    /// verbs until it is revoked. Each registration has a key of its own that
    /// cannot be guessed from others where the provider lets us choose it.
    ///
    /// # Errors
    /// Too many clients, or the provider's: often that less memory may be locked
    /// than is needed (`ulimit -l`).
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

    /// Ends what [`RemoteRings::register`] allowed: writes fail that come from now on.
    /// One whose beginning a provider of libfabric has taken already may still end, in
    /// memory that is not read any more. Revoking again does nothing. FENCE-1
    ///
    /// # Errors
    /// The provider's: writes may still come. Drop `self`, which closes the
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

    /// Makes the provider take in what clients write.
    ///
    /// # Errors
    /// The endpoint is of no use any more: drop it; clients join again.
    pub fn progress(&mut self) -> Result<(), RemoteError> {
        self.opened.endpoint.progress()
    }

    /// Readable when there is something to [`RemoteRings::progress`]; `None`: the
    /// provider (`shm`) does not wake the server.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.opened.endpoint.descriptor()
    }

    /// How long the server may sleep from now on: not at all when something is
    /// left to [`RemoteRings::progress`], `None`: until the descriptor wakes it. What
    /// clients write may be taken in by this too (`fi_trywait` of `tcp` lets its
    /// connections go on): look into the rings behind it, and then sleep.
    pub fn sleep_max(&mut self) -> Option<Duration> {
        let has_clients = self.has_clients();
        self.opened.endpoint.sleep_max(has_clients)
    }

    /// The provider in all its layers, as a client must name it.
    pub fn provider(&self) -> &str {
        &self.opened.provider
    }

    /// Whether any client may write.
    pub fn has_clients(&self) -> bool {
        !self.live.is_empty()
    }

    /// Bytes of revoked rings that stay mapped until `self` is dropped. A server
    /// opens itself anew when they have become many.
    pub fn revoked_bytes(&self) -> usize {
        self.revoked * self.opened.revoked_bytes_each
    }
}
