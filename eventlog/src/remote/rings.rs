//! The server's part: rings that clients write into by RMA.

use super::RemoteError;
use super::libfabric::{self, LibfabricRings};
use super::verbs::{self, VERBS, VerbsRings};
use crate::message::RemoteRing;
use crate::ring::RingMemory;
use core::time::Duration;
use refrain_verbs::PortChoice;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Names a registered ring. Another [`RemoteRings`] does not know it, but for an
/// accident of chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingKey(Key);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Libfabric(libfabric::RingKey),
    Verbs(verbs::RingKey),
}

/// Rings of this process that clients write into by RMA.
///
/// In the server's poll loop:
///
/// 1. Put [`RemoteRings::descriptor`], where there is one, among what is waited
///    for; it does not change.
/// 2. After every wake-up call [`RemoteRings::progress`], whatever woke: with
///    most providers the peers' writes move only then. Then drain the rings.
/// 3. Sleep no longer than [`RemoteRings::sleep_max`] says, asked last.
///
/// When a client comes: [`RemoteRings::register`] its ring, and put what that
/// returns into the welcome. When it is fenced or gone: [`RemoteRings::progress`]
/// once more, [`RemoteRings::revoke`], *then* drain its ring for the last time
/// and close it, *then* answer its successor. FENCE-1
#[derive(Debug)]
pub struct RemoteRings(By);

#[derive(Debug)]
enum By {
    Libfabric(LibfabricRings),
    Verbs(VerbsRings),
}

impl RemoteRings {
    /// Opens an endpoint of a provider for at most that many rings at a time: of
    /// libfabric's, or [`VERBS`].
    ///
    /// `library`: the file of libfabric or libibverbs, by default the installed
    /// one. Call it before other threads run (see
    /// [`refrain_libfabric::Library::load`]). `port`: which port of which device is
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
        Ok(Self(match provider {
            VERBS => By::Verbs(VerbsRings::open(library, port, clients_max)?),
            _ => By::Libfabric(LibfabricRings::open(provider, library, clients_max)?),
        }))
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
        let (key, ring) = match &mut self.0 {
            By::Libfabric(rings) => {
                let (key, ring) = rings.register(memory)?;
                (Key::Libfabric(key), ring)
            }
            By::Verbs(rings) => {
                let (key, ring) = rings.register(memory)?;
                (Key::Verbs(key), ring)
            }
        };
        Ok((RingKey(key), ring))
    }

    /// Ends what [`RemoteRings::register`] allowed: writes fail that come from
    /// now on. One whose beginning a provider of libfabric has taken already may
    /// still end, in memory that nobody reads any more. Revoking again does
    /// nothing. FENCE-1
    ///
    /// # Errors
    /// The provider's: writes may still come. Drop `self`, which closes the
    /// endpoint, before the successor is answered.
    pub fn revoke(&mut self, key: RingKey) -> Result<(), RemoteError> {
        match (&mut self.0, key.0) {
            (By::Libfabric(rings), Key::Libfabric(key)) => rings.revoke(key)?,
            (By::Verbs(rings), Key::Verbs(key)) => rings.revoke(key)?,
            // Of an endpoint that is closed.
            _ => {}
        }
        Ok(())
    }

    /// Lets the provider take in what clients write.
    ///
    /// # Errors
    /// The endpoint is of no use any more: drop it; clients join again.
    pub fn progress(&mut self) -> Result<(), RemoteError> {
        match &mut self.0 {
            By::Libfabric(rings) => rings.progress()?,
            By::Verbs(rings) => rings.progress()?,
        }
        Ok(())
    }

    /// Readable when there is something to [`RemoteRings::progress`]; `None`: the
    /// provider (`shm`) wakes nobody.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            By::Libfabric(rings) => rings.descriptor(),
            By::Verbs(rings) => rings.descriptor(),
        }
    }

    /// How long the server may sleep from now on: not at all when something is
    /// left to [`RemoteRings::progress`], `None`: until the descriptor wakes it.
    pub fn sleep_max(&mut self) -> Option<Duration> {
        match &mut self.0 {
            By::Libfabric(rings) => rings.sleep_max(),
            By::Verbs(rings) => rings.sleep_max(),
        }
    }

    /// The provider in all its layers, as a client must name it.
    pub fn provider(&self) -> &str {
        match &self.0 {
            By::Libfabric(rings) => rings.provider(),
            By::Verbs(_) => VERBS,
        }
    }

    /// Bytes of revoked rings that stay mapped until `self` is dropped. A server
    /// without remote clients may open itself anew when they have become many.
    pub fn revoked_bytes(&self) -> usize {
        match &self.0 {
            By::Libfabric(rings) => rings.revoked_bytes(),
            By::Verbs(_) => 0,
        }
    }
}
