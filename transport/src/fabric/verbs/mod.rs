//! InfiniBand, RoCE and soft-RoCE through libibverbs, as a [`Network`]. A small message is one
//! request that contains its bytes, and one doorbell. One completion reports sixteen messages.

pub use super::network::Overrides;
pub use refrain_verbs::{Chosen, Device, PortChoice};

use super::FabricError;
use super::network::{Choices, Limits, Network, NetworkOptions, PayloadPath, native};
use refrain_ring::Region;
use refrain_verbs::{Counters, DeviceLimits, Endpoint, EndpointOptions, Library};
use std::path::{Path, PathBuf};

/// The provider's name in addresses, and the name that `--fabric` takes.
const NAME: &str = "verbs";

/// Options of the fabric.
#[derive(Clone, Debug)]
pub struct VerbsOptions {
    /// The identity of the rank, and how long peers may be in trouble.
    pub network: NetworkOptions,
    /// The library file; `None`: `libibverbs.so.1` as the loader finds it.
    pub library: Option<PathBuf>,
    /// Device, port, GID and packet size. Those that are not set are chosen.
    pub port: PortChoice,
    /// Overrides for tests and measurements.
    pub overrides: Overrides,
}

/// The fabric of one rank over verbs.
pub type Verbs = Network<Endpoint>;

impl Network<Endpoint> {
    /// Opens a device and registers the log memory in `region`.
    ///
    /// # Errors
    /// When there is no library or no usable port: the error says what was found, and what to do.
    /// When the device refuses: the error has its words.
    pub fn create(options: VerbsOptions, region: &Region) -> Result<Self, FabricError> {
        let library = Library::load(options.library.as_deref())?;
        let chosen = choose_of(&library, &options.port)?;
        let mut choices = Choices::new(
            PATH,
            limits(&chosen.limits, chosen.message_max_bytes as usize),
            options.network.size,
            options.overrides,
        );
        let opened = Endpoint::open(
            &library,
            &chosen,
            &EndpointOptions {
                operations_max: Self::operations_max(options.network.size) + choices.receives,
                peers_max: options.network.size.max(2) as usize,
                receives_max: choices.receives,
                ..EndpointOptions::default()
            },
        );
        let endpoint = opened.map_err(|error| native(&error))?;
        // Receives must not exceed the room that the completion queue has for them: a slot that
        // could not be posted would keep the rank from sleeping.
        choices.receives = choices.receives.min(endpoint.receives_max());
        Self::over(
            endpoint,
            options.network,
            choices,
            NAME.into(),
            NAME.into(),
            region,
        )
    }

    /// Requests to the device and its completions so far.
    pub fn counters(&self) -> &Counters {
        self.endpoint().counters()
    }
}

/// Hardware reads at line rate without the sender's processor. Below this length
/// a message arrives before a request to read would. Reads go through memory of the
/// fabric, since the program's memory is not registered: the receiver copies once, as with
/// messages.
const PATH: PayloadPath = PayloadPath {
    fragment_bytes: 128 << 10,
    distant_bytes_min: Some(16 << 10),
};

/// Receives and sends share the completion queue: receives get at most half of it.
fn limits(device: &DeviceLimits, message_bytes_max: usize) -> Limits {
    let receives_max = device.shared_requests.min(device.completions / 2);
    Limits {
        message_bytes_max,
        receives_max: receives_max as usize,
        can_read: device.reads_begun > 0 && device.reads_answered > 0,
    }
}

fn choose_of(library: &Library, wanted: &PortChoice) -> Result<Chosen, FabricError> {
    let devices = library.devices().map_err(|error| native(&error))?;
    refrain_verbs::choose(&devices, wanted).map_err(|error| native(&error))
}

/// The port that a rank on this machine would use.
///
/// # Errors
/// When there is no such port. The error says what was tried, what was found, and what to do.
pub fn choose(library: Option<&Path>, wanted: &PortChoice) -> Result<Chosen, FabricError> {
    choose_of(&Library::load(library)?, wanted)
}

/// The devices of this machine, usable or not.
///
/// # Errors
/// When the library cannot be loaded, or lists no device because something is missing.
pub fn devices(library: Option<&Path>) -> Result<Vec<Device>, FabricError> {
    let library = Library::load(library)?;
    library.devices().map_err(|error| native(&error))
}
