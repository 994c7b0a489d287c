//! The providers of libfabric and their properties.

use super::payload_path;
use crate::fabric::FabricError;
use crate::fabric::network::{Overrides, native};
use refrain_libfabric::constants::{FI_MSG, FI_ORDER_SAS, FI_RMA, FI_SOCKADDR_IN};
use refrain_libfabric::{EndpointType, Hints, Info, Library};
use std::path::Path;

/// A provider as installed here, with its properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// libfabric's name.
    pub name: String,
    /// Its version, as libfabric writes it.
    pub version: (u32, u32),
    /// Whether it serves the fabric `ofi`; if not, the reason.
    pub usable: Result<(), String>,
    /// How long messages travel: `read` (by RMA out of the sender's log) or
    /// `messages`.
    pub long_messages: &'static str,
    /// How a waiting rank sleeps: `descriptor`, `naps` of up to a millisecond, or
    /// `not tried`.
    pub sleeps: &'static str,
    /// Maximum bytes that are sent without a completion.
    pub inject_bytes: usize,
    /// What a completion of a message with `FI_DELIVERY_COMPLETE` means.
    pub message_completion: &'static str,
    /// What a completion of a one-sided write with `FI_DELIVERY_COMPLETE` means.
    pub write_completion: &'static str,
}

/// Why a provider that libfabric offers is refused.
const OBSOLETE: &str = "libfabric's sockets provider is obsolete and not supported: use tcp";

fn is_obsolete(provider: &str) -> bool {
    provider.split(';').any(|layer| layer == "sockets")
}

/// Loads the library and finds the offer of a provider.
pub(super) fn open(library: Option<&Path>, provider: &str) -> Result<(Library, Info), FabricError> {
    let library = Library::load(library)?;
    let first = offers(&library, Some(provider))?.into_iter().next();
    let Some(info) = first else {
        return Err(unknown(&library, provider));
    };
    Ok((library, info))
}

/// The offers of a provider, or of all, that keep the order of messages. Offers on an internet
/// address come first (other families need more than an address to be reached); among them, and
/// among the others, offers with remote memory access come first.
fn offers(library: &Library, provider: Option<&str>) -> Result<Vec<Info>, FabricError> {
    let mut found = Vec::new();
    for caps in [FI_MSG | FI_RMA, FI_MSG] {
        let hints = Hints {
            provider: provider.map(str::to_owned),
            caps,
            msg_order: FI_ORDER_SAS,
            ..Hints::default()
        };
        found.extend(infos(library, &hints)?);
        if provider.is_some() && !found.is_empty() {
            break;
        }
    }
    found.retain(|info| !is_obsolete(&info.provider()));
    found.sort_by_key(|info| {
        let is_internet = info.address_format() == FI_SOCKADDR_IN;
        let is_loopback = is_internet && info.source_address().get(4) == Some(&127);
        (!is_internet, is_loopback)
    });
    Ok(found)
}

fn infos(library: &Library, hints: &Hints) -> Result<Vec<Info>, FabricError> {
    match library.infos(hints) {
        Err(error) if error.is_no_data() => Ok(Vec::new()),
        found => found.map_err(|error| native(&error)),
    }
}

fn unknown(library: &Library, provider: &str) -> FabricError {
    let words = if is_obsolete(provider) {
        OBSOLETE.into()
    } else {
        let mut names: Vec<String> = Vec::new();
        for info in offers(library, None).unwrap_or_default() {
            if !names.contains(&info.provider()) {
                names.push(info.provider());
            }
        }
        format!(
            "libfabric {} offers no such provider here: choose one of {} (see `refrain info --providers`)",
            library.version(),
            names.join(", ")
        )
    };
    FabricError::Native {
        attempted: format!("open libfabric's provider {provider:?}"),
        words,
    }
}

/// The version of a libfabric, as `1.17`.
///
/// # Errors
/// As [`providers`].
pub fn library_version(library: Option<&Path>) -> Result<String, FabricError> {
    Ok(Library::load(library)?.version().to_string())
}

/// All providers that libfabric offers on this machine.
///
/// # Errors
/// When the library cannot be loaded. The error says what was tried and what to do.
pub fn providers(library: Option<&Path>) -> Result<Vec<Provider>, FabricError> {
    let library = Library::load(library)?;
    let usable = offers(&library, None)?;
    let every = Hints {
        caps: 0,
        endpoint: EndpointType::Any,
        ..Hints::default()
    };
    let others = infos(&library, &every)?;
    let usable = usable.iter().map(|info| (info, true));
    let others = others.iter().map(|info| (info, false));
    let mut found: Vec<Provider> = Vec::new();
    for (info, is_usable) in usable.chain(others) {
        let name = info.provider();
        if found.iter().all(|provider| provider.name != name) {
            found.push(statement(info, name, is_usable));
        }
    }
    Ok(found)
}

fn statement(info: &Info, name: String, is_usable: bool) -> Provider {
    let choices = payload_path::choices(info, 2, Overrides::default());
    let version = info.provider_version();
    let reads = choices.distant_bytes_min.is_some();
    let known = Known::of(&name);
    let refused = match is_obsolete(&name) {
        true => OBSOLETE,
        false => "no reliable endpoints without connections that keep the order of messages",
    };
    Provider {
        version: (version.major, version.minor),
        usable: is_usable.then_some(()).ok_or_else(|| refused.into()),
        long_messages: if reads { "read" } else { "messages" },
        sleeps: known.sleeps,
        inject_bytes: info.inject_bytes(),
        message_completion: known.message,
        write_completion: known.write,
        name,
    }
}

/// Properties of a provider as found by the tests of `refrain-libfabric` with libfabric 1.17 and
/// 2.5, with a peer in another process that polls and with one that does not. Not all providers
/// keep what libfabric's documents promise.
struct Known {
    sleeps: &'static str,
    message: &'static str,
    write: &'static str,
}

/// By layer; the first entry whose layer a provider has counts.
const KNOWN: [(&str, Known); 4] = [
    (
        // Accepts FI_DELIVERY_COMPLETE on messages and ignores it. The fabric does not rely on it
        // for any provider: it acknowledges messages itself.
        "ofi_rxm",
        Known {
            sleeps: "descriptor",
            message: "buffer free, whatever is asked",
            write: "in memory; target must poll",
        },
    ),
    (
        // A process that is killed or stopped inside the provider may hold a lock (1.17) or a place
        // in a queue (2.5) in the memory of others, which then wait for ever. Reads from a fenced
        // peer that need its answer (no CMA) never end. Inside a host the fabric `shm` survives
        // kills at any moment.
        "shm",
        Known {
            sleeps: "naps",
            message: "buffer free",
            write: "in memory; target must poll",
        },
    ),
    ("tcp", TCP),
    ("net", TCP),
];

const TCP: Known = Known {
    sleeps: "descriptor",
    message: "buffer free",
    write: "in memory; target must poll",
};

const NOT_TRIED: Known = Known {
    sleeps: "not tried",
    message: "not tried",
    write: "not tried",
};

impl Known {
    fn of(provider: &str) -> &'static Self {
        let has_layer = |name: &str| provider.split(';').any(|layer| layer == name);
        let known = KNOWN.iter().find(|(layer, _)| has_layer(layer));
        known.map_or(&NOT_TRIED, |(_, known)| known)
    }
}
