//! libfabric: every provider with reliable endpoints without connections
//! (`FI_EP_RDM`) as a [`Network`].

mod payload_path;
mod providers;

pub use super::network::Overrides;
pub use providers::{Provider, library_version, providers};

use super::FabricError;
use super::network::{Network, NetworkOptions, native};
use refrain_libfabric::{Endpoint, EndpointOptions};
use refrain_ring::Region;
use std::path::PathBuf;

/// Options of the fabric.
#[derive(Clone, Debug)]
pub struct OfiOptions {
    /// The identity of the rank, and how long peers may be in trouble.
    pub network: NetworkOptions,
    /// libfabric's name of the provider: `tcp`, `shm`, `tcp;ofi_rxm` …
    pub provider: String,
    /// The library file; `None`: `libfabric.so.1` as the loader finds it.
    pub library: Option<PathBuf>,
    /// Overrides for tests and measurements.
    pub overrides: Overrides,
}

/// The libfabric fabric of one rank.
pub type Ofi = Network<Endpoint>;

impl Network<Endpoint> {
    /// Opens an endpoint and registers the log memory in `region`.
    ///
    /// # Errors
    /// When library or provider are missing or refuse. The error has the provider's words.
    pub fn create(options: OfiOptions, region: &Region) -> Result<Self, FabricError> {
        let (library, info) = providers::open(options.library.as_deref(), &options.provider)?;
        let choices = payload_path::choices(&info, options.network.size, options.overrides);
        let operations_max = choices.receives + Self::operations_max(options.network.size);
        let opened = Endpoint::open(
            &library,
            &info,
            &EndpointOptions {
                // Injected messages that fail may leave entries, too.
                cq_depth: 2 * operations_max,
                av_count: options.network.size as usize,
                wants_fd: true,
                operations_max,
            },
        );
        let endpoint = opened.map_err(|error| native(&error))?;
        let name = format!("ofi:{}", options.provider).into();
        Self::over(
            endpoint,
            options.network,
            choices,
            name,
            info.provider(),
            region,
        )
    }
}
