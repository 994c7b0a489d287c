//! Which offer of a provider both sides open.

use crate::remote::RemoteError;
use core::cmp::Reverse;
use refrain_libfabric::constants::{FI_MSG, FI_RMA, FI_SOCKADDR_IN};
use refrain_libfabric::{Hints, Info, Library};
use refrain_logging::determinant::batch::BATCH_BYTES_MAX;
use std::path::Path;

/// Loads libfabric and finds the offer of a provider: on an internet address
/// first (others need more than an address to be reached), outward ones before
/// the loopback.
pub(super) fn open(library: Option<&Path>, provider: &str) -> Result<(Library, Info), RemoteError> {
    let library = Library::load(library)?;
    let mut offers = offers(&library, Some(provider))?;
    offers.sort_by_key(|info| {
        let is_internet = info.address_format() == FI_SOCKADDR_IN;
        let is_loopback = is_internet && info.source_address().get(4) == Some(&127);
        (Reverse(is_internet), is_loopback)
    });
    match offers.into_iter().next() {
        Some(info) => Ok((library, info)),
        None => Err(unknown(&library, provider)),
    }
}

fn offers(library: &Library, provider: Option<&str>) -> Result<Vec<Info>, RemoteError> {
    let hints = Hints {
        provider: provider.map(str::to_owned),
        caps: FI_MSG | FI_RMA,
        ..Hints::default()
    };
    match library.infos(&hints) {
        Ok(mut infos) => {
            infos.retain(|info| info.message_bytes_max() >= BATCH_BYTES_MAX);
            Ok(infos)
        }
        Err(error) if error.is_no_data() => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn unknown(library: &Library, provider: &str) -> RemoteError {
    let mut names: Vec<String> = Vec::new();
    for info in offers(library, None).unwrap_or_default() {
        if !names.contains(&info.provider()) {
            names.push(info.provider());
        }
    }
    RemoteError::NoProvider {
        provider: provider.to_owned(),
        library: library.version().to_string(),
        choose_from: names.join(", "),
    }
}
