//! libfabric: every provider with reliable endpoints without connections
//! (`FI_EP_RDM`) as a [`Network`].

mod endpoint;
mod providers;
mod ways;

pub use super::network::Overrides;
pub use providers::{Provider, library_version, providers};

use super::FabricError;
use super::network::{Network, NetworkOptions, native};
use core::time::Duration;
use refrain_libfabric::{Endpoint, EndpointOptions};
use refrain_ring::{Incarnation, Rank, Region};
use std::path::PathBuf;

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
    /// For tests and measurements.
    pub overrides: Overrides,
}

/// The libfabric fabric of one rank.
pub type Ofi = Network<Endpoint>;

impl Network<Endpoint> {
    /// Opens an endpoint and registers the log memory in `region`.
    ///
    /// # Errors
    /// When library or provider are missing or refuse: in the provider's words.
    pub fn create(options: OfiOptions, region: &Region) -> Result<Self, FabricError> {
        let (library, info) = providers::open(&options)?;
        let choices = ways::choices(&info, options.size, options.overrides);
        let operations_max = choices.receives + Self::operations_max(options.size);
        let opened = Endpoint::open(
            &library,
            &info,
            &EndpointOptions {
                // Injected messages may leave entries too, when they fail.
                cq_depth: 2 * operations_max,
                av_count: options.size as usize,
                wants_fd: true,
                operations_max,
            },
        );
        let endpoint = opened.map_err(|error| native(&error))?;
        let name = format!("ofi:{}", options.provider).into();
        let network = NetworkOptions {
            job: options.job,
            rank: options.rank,
            incarnation: options.incarnation,
            size: options.size,
            window_bytes: options.window_bytes,
            lost_after: options.lost_after,
            suspect_after: options.suspect_after,
        };
        Self::over(endpoint, network, choices, name, info.provider(), region)
    }
}
