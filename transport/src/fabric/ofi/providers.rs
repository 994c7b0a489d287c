//! The providers of libfabric: what they are, and what they promise.

use super::OfiOptions;
use super::ways;
use crate::fabric::FabricError;
use crate::fabric::network::Overrides;
use refrain_libfabric::constants::{FI_MSG, FI_ORDER_SAS, FI_RMA, FI_SOCKADDR_IN};
use refrain_libfabric::{EndpointType, Hints, Info, Library};
use std::path::Path;

/// One provider as installed here, and what it promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// libfabric's name.
    pub name: String,
    /// Its version, as libfabric writes it.
    pub version: (u32, u32),
    /// It serves the fabric `ofi`; else why not.
    pub usable: Result<(), String>,
    /// How long messages travel: `read` (by RMA out of the sender's log) or
    /// `messages`.
    pub long_messages: &'static str,
    /// How a waiting rank sleeps: `descriptor`, or `naps` of up to a millisecond;
    /// `not tried` where nobody has.
    pub sleeps: &'static str,
    /// Bytes that are sent without a completion at most.
    pub inject_bytes: usize,
    /// What a completion of a message with `FI_DELIVERY_COMPLETE` means.
    pub message_completion: &'static str,
    /// What a completion of a one-sided write with `FI_DELIVERY_COMPLETE` means.
    pub write_completion: &'static str,
}

/// Loads the library and finds the offer of a provider.
pub(super) fn open(options: &OfiOptions) -> Result<(Library, Info), FabricError> {
    let library = Library::load(options.library.as_deref())?;
    let infos = offers(&library, Some(&options.provider))?;
    let Some(info) = infos.into_iter().next() else {
        return Err(unknown(&library, &options.provider));
    };
    Ok((library, info))
}

/// The offers of a provider, or of all, that keep the order of messages: with
/// remote memory access first, on an internet address first (other families
/// need more than an address to be reached).
fn offers(library: &Library, provider: Option<&str>) -> Result<Vec<Info>, FabricError> {
    let mut infos = Vec::new();
    for caps in [FI_MSG | FI_RMA, FI_MSG] {
        let hints = Hints {
            provider: provider.map(str::to_owned),
            caps,
            msg_order: FI_ORDER_SAS,
            ..Hints::default()
        };
        match library.infos(&hints) {
            Ok(found) => infos.extend(found),
            Err(error) if error.is_no_data() => {}
            Err(error) => return Err(super::native(&error)),
        }
        if provider.is_some() && !infos.is_empty() {
            break;
        }
    }
    infos.sort_by_key(|info| {
        let is_internet = info.address_format() == FI_SOCKADDR_IN;
        let is_loopback = is_internet && info.source_address().get(4) == Some(&127);
        (!is_internet, is_loopback)
    });
    Ok(infos)
}

fn unknown(library: &Library, provider: &str) -> FabricError {
    let names = offers(library, None)
        .map(|infos| names_of(&infos).join(", "))
        .unwrap_or_default();
    FabricError::Native {
        attempted: format!("open libfabric's provider {provider:?}"),
        words: format!(
            "libfabric {} offers no such provider here: choose one of {names} (see `refrain info --providers`)",
            library.version()
        ),
    }
}

fn names_of(infos: &[Info]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for info in infos {
        let name = info.provider();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The version of a libfabric, as `1.17`.
///
/// # Errors
/// As [`providers`].
pub fn library_version(library: Option<&Path>) -> Result<String, FabricError> {
    Ok(Library::load(library)?.version().to_string())
}

/// Everything that libfabric offers on this machine.
///
/// # Errors
/// When the library cannot be loaded: what was tried and what to do.
pub fn providers(library: Option<&Path>) -> Result<Vec<Provider>, FabricError> {
    let library = Library::load(library)?;
    let usable = offers(&library, None)?;
    let every = Hints {
        caps: 0,
        endpoint: EndpointType::Any,
        ..Hints::default()
    };
    let every = match library.infos(&every) {
        Ok(infos) => infos,
        Err(error) if error.is_no_data() => Vec::new(),
        Err(error) => return Err(super::native(&error)),
    };
    let mut found: Vec<Provider> = Vec::new();
    for info in usable.iter().chain(&every) {
        if found
            .iter()
            .all(|provider| provider.name != info.provider())
        {
            let is_usable = found.len() < names_of(&usable).len();
            found.push(statement(info, is_usable));
        }
    }
    Ok(found)
}

fn statement(info: &Info, is_usable: bool) -> Provider {
    let choices = ways::choices(info, 2, Overrides::default());
    let name = info.provider();
    let version = info.provider_version();
    let known = Known::of(&name);
    Provider {
        version: (version.major, version.minor),
        usable: if is_usable {
            Ok(())
        } else {
            Err("no reliable endpoints without connections that keep the order of messages".into())
        },
        long_messages: if choices.distant_bytes_min.is_some() {
            "read"
        } else {
            "messages"
        },
        sleeps: known.sleeps,
        inject_bytes: info.inject_bytes(),
        message_completion: known.message,
        write_completion: known.write,
        name,
    }
}

/// What was found out about a provider by the tests of `refrain-libfabric`
/// (a peer in another process that polls, and one that does not), with libfabric
/// 1.17 and 2.5. libfabric's documents promise more than all of them keep.
struct Known {
    sleeps: &'static str,
    message: &'static str,
    write: &'static str,
}

impl Known {
    fn of(provider: &str) -> Self {
        let layers: Vec<&str> = provider.split(';').collect();
        let is = |name: &str| layers.contains(&name);
        if is("ofi_rxm") {
            // Accepts FI_DELIVERY_COMPLETE on messages and ignores it. Of no
            // provider more is relied on: the fabric acknowledges itself.
            Self {
                sleeps: "descriptor",
                message: "buffer free, whatever is asked",
                write: "in memory; target must poll",
            }
        } else if is("shm") {
            // A process that is killed, or stopped, inside of the provider may hold
            // a lock (1.17) or a place in a queue (2.5) that lies in the memory of
            // others: those wait for it for ever, and a fenced peer's reads that
            // need its answer (no CMA) never end. Where ranks are killed at any
            // moment, the fabric `shm` is the one to use inside a host.
            Self {
                sleeps: "naps",
                message: "buffer free",
                write: "in memory; target must poll",
            }
        } else if is("tcp") || is("net") {
            Self {
                sleeps: "descriptor",
                message: "buffer free",
                write: "in memory; target must poll",
            }
        } else if is("sockets") {
            Self {
                sleeps: "descriptor",
                message: "buffer free",
                write: "in memory",
            }
        } else {
            Self {
                sleeps: "not tried",
                message: "not tried",
                write: "not tried",
            }
        }
    }
}
