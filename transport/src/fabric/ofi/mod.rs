//! libfabric: every provider with reliable, unconnected endpoints behind one
//! fabric. STUB: the bodies come with `refrain-libfabric`.

pub mod address;
pub mod lane;
pub mod wire;

use super::FabricError;
use core::time::Duration;
use refrain_ring::{Incarnation, Rank, Region};
use std::path::{Path, PathBuf};

/// What a rank brings to the fabric.
#[derive(Clone, Debug)]
pub struct OfiOptions {
    /// The job; frames of other jobs are dropped.
    pub job: u64,
    /// This rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Ranks of the job.
    pub size: u32,
    /// Bytes that one channel's log may hold before its receiver has let go.
    pub window_bytes: u64,
    /// libfabric's name of the provider: `tcp`, `shm`, `tcp;ofi_rxm` …
    pub provider: String,
    /// The library file; `None`: `libfabric.so.1` as the loader finds it.
    pub library: Option<PathBuf>,
    /// How long an error of the provider about a peer may last until the peer
    /// counts as lost.
    pub lost_after: Duration,
    /// How long a peer may leave frames unanswered until it is reported as lost;
    /// `None`: for ever. A rank that computes answers nothing meanwhile.
    pub suspect_after: Option<Duration>,
}

/// One provider as installed here, and what it promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// libfabric's name.
    pub name: String,
    /// Its version, as libfabric writes it.
    pub version: (u32, u32),
    /// It serves the fabric `ofi`; else why not.
    pub usable: Result<(), String>,
    /// How long messages travel: `read` (by RMA out of the sender's log) or `messages`.
    pub long_messages: &'static str,
    /// How a waiting rank sleeps: `descriptor`, or `naps` of up to a millisecond.
    pub sleeps: &'static str,
    /// Bytes that are sent without a completion at most.
    pub inject_bytes: usize,
    /// What a completion of a message with `FI_DELIVERY_COMPLETE` means.
    pub message_completion: &'static str,
    /// What a completion of a one-sided write with `FI_DELIVERY_COMPLETE` means.
    pub write_completion: &'static str,
}

/// Everything that libfabric offers on this machine.
///
/// # Errors
/// When the library cannot be loaded: what was tried and what to do.
pub fn providers(library: Option<&Path>) -> Result<Vec<Provider>, FabricError> {
    let _ = library;
    todo!("STUB")
}

/// The libfabric fabric of one rank.
#[derive(Debug)]
pub struct Ofi {}

impl Ofi {
    /// Opens an endpoint and registers the log memory in `region`.
    ///
    /// # Errors
    /// When library or provider are missing or refuse: in the provider's words.
    pub fn create(options: OfiOptions, region: &Region) -> Result<Self, FabricError> {
        let _ = (options, region);
        todo!("STUB")
    }

    /// Exchanges a greeting with other ranks, so that an address that does not
    /// answer is found at the start: sends one to `to`, waits for its answer, and
    /// answers those of `from`. To be called by all ranks of the job at about the
    /// same time, after they connected; a rank is in `from` of the one that it
    /// greets.
    ///
    /// # Errors
    /// [`FabricError::Silent`] after `timeout`.
    pub fn greet(
        &mut self,
        to: Option<Rank>,
        from: &[Rank],
        timeout: Duration,
    ) -> Result<(), FabricError> {
        let _ = (to, from, timeout);
        todo!("STUB")
    }
}
