//! How messages travel over each of libfabric's providers, and why.

use crate::fabric::network::{Choices, Limits, Overrides, PayloadPath};
use refrain_libfabric::Info;
use refrain_libfabric::constants::FI_RMA;

const FRAGMENT_BYTES: usize = 128 << 10;
/// The longest message that `ofi_rxm` sends without a request (FI_OFI_RXM_BUFFER_SIZE).
const RXM_EAGER_BYTES: usize = 16 << 10;

/// From this version on, `shm` sends a request to the other side for shorter reads: then a read
/// from a process that was killed never ends.
const SHM_ASKS_SINCE: u32 = 200;

/// The choices for an offer in a job of `size` ranks.
pub fn choices(info: &Info, size: u32, overrides: Overrides) -> Choices {
    let limits = Limits {
        message_bytes_max: info.message_bytes_max(),
        receives_max: info.rx_depth(),
        can_read: info.caps() & FI_RMA == FI_RMA,
    };
    let path = path(&info.provider(), info.provider_version().major);
    Choices::new(path, limits, size, overrides)
}

/// The payload path of a provider, as measured in docs/design/performance.md.
fn path(provider: &str, version: u32) -> PayloadPath {
    let is = |name: &str| provider.split(';').any(|layer| layer == name);
    let (fragment_bytes, distant_bytes_min) = if is("ofi_rxm") && (is("tcp") || is("net")) {
        // Longer messages wait for a request and an answer of `ofi_rxm`.
        (RXM_EAGER_BYTES - 128, None)
    } else if is("tcp") || is("net") || is("udp") {
        // Their reads are made of messages, with a request that the sender must answer; a rank that
        // computes does not answer.
        (FRAGMENT_BYTES, None)
    } else if is("shm") || is("sm2") {
        // One copy by the kernel (CMA) out of the log into the receive's memory. For shorter
        // payloads two copies are cheaper than the call. Each call costs a microsecond or more, so
        // frames are long.
        let from_bytes = if version < SHM_ASKS_SINCE { 8 } else { 64 };
        (FRAGMENT_BYTES, Some(from_bytes << 10))
    } else {
        // Hardware reads at line rate without the sender's processor.
        (FRAGMENT_BYTES, Some(16 << 10))
    };
    PayloadPath {
        fragment_bytes,
        distant_bytes_min,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_libfabric::{Hints, Library};

    /// Every offer of the installed libfabric has a path that works.
    #[test]
    fn every_offer_has_slots_for_what_is_sent() {
        let Ok(library) = Library::load(None) else {
            println!("skipped payload paths: no libfabric is installed");
            return;
        };
        for info in library.infos(&Hints::default()).unwrap_or_default() {
            for size in [1, 2, 16, 500] {
                let choices = choices(&info, size, Overrides::default());
                let name = info.provider();
                let slot_bytes = choices.slot_payload_bytes();
                assert!(
                    slot_bytes + 256 <= info.message_bytes_max(),
                    "{name}: {choices:?}"
                );
                let is_cut_off = choices
                    .distant_bytes_min
                    .is_none_or(|bytes| bytes > slot_bytes + 1)
                    && choices.fragment_bytes > slot_bytes;
                assert!(!is_cut_off, "{name}: {choices:?}");
            }
        }
    }
}
