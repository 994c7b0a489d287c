//! The providers of libfabric: what they are, and what they promise.

use super::OfiOptions;
use super::choices::{Choices, Overrides};
use crate::fabric::FabricError;
use refrain_libfabric::constants::{FI_MSG, FI_ORDER_SAS, FI_RMA, FI_SOCKADDR_IN};
use refrain_libfabric::{Hints, Info, Library};
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
    /// How a waiting rank sleeps: `descriptor`, or `naps` of up to a millisecond.
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
    let library = load(options.library.as_deref())?;
    let infos = offers(&library, Some(&options.provider))?;
    let Some(info) = infos.into_iter().next() else {
        return Err(unknown(&library, &options.provider));
    };
    Ok((library, info))
}

fn load(path: Option<&Path>) -> Result<Library, FabricError> {
    Library::load(path).map_err(|error| FabricError::Native {
        attempted: "load libfabric".into(),
        words: error.to_string(),
    })
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

/// Everything that libfabric offers on this machine.
///
/// # Errors
/// When the library cannot be loaded: what was tried and what to do.
pub fn providers(library: Option<&Path>) -> Result<Vec<Provider>, FabricError> {
    let library = load(library)?;
    let infos = offers(&library, None)?;
    let mut seen: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for info in &infos {
        let name = info.provider();
        if !seen.contains(&name) {
            seen.push(name);
            found.push(statement(info));
        }
    }
    Ok(found)
}

fn statement(info: &Info) -> Provider {
    let choices = Choices::new(info, 2, Overrides::default());
    let name = info.provider();
    let version = info.provider_version();
    Provider {
        version: (version.major, version.minor),
        usable: Ok(()),
        long_messages: if choices.distant_bytes_min.is_some() {
            "read"
        } else {
            "messages"
        },
        sleeps: "naps",
        inject_bytes: info.inject_bytes(),
        message_completion: "",
        write_completion: "",
        name,
    }
}
