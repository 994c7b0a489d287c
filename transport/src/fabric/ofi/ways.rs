//! How messages travel over each of libfabric's providers, and why.

use crate::fabric::network::{Choices, Limits, Overrides, Way};
use refrain_libfabric::Info;
use refrain_libfabric::constants::FI_RMA;

/// What `ofi_rxm` sends without asking (FI_OFI_RXM_BUFFER_SIZE).
const RXM_EAGER_BYTES: usize = 16 << 10;

/// From this version on `shm` asks the other side for shorter reads: a read from
/// a process that was killed then never ends.
const SHM_ASKS_SINCE: u32 = 200;

/// The choices for an offer in a job of `size` ranks.
pub fn choices(info: &Info, size: u32, overrides: Overrides) -> Choices {
    let limits = Limits {
        message_bytes_max: info.message_bytes_max(),
        receives_max: info.rx_depth(),
        can_read: info.caps() & FI_RMA == FI_RMA,
    };
    let way = way(&info.provider(), info.provider_version().major);
    Choices::new(way, limits, size, overrides)
}

/// Measured in docs/design/performance.md.
fn way(provider: &str, version: u32) -> Way {
    let is = |name: &str| provider.split(';').any(|layer| layer == name);
    if is("ofi_rxm") && (is("tcp") || is("net")) {
        // Longer messages wait for a question and an answer of `ofi_rxm`.
        Way {
            fragment_bytes: RXM_EAGER_BYTES - 128,
            distant_bytes_min: None,
        }
    } else if is("tcp") || is("net") || is("udp") {
        // Their reads are messages in disguise, with a question before each
        // answer, which a rank that computes does not give.
        Way {
            fragment_bytes: 128 << 10,
            distant_bytes_min: None,
        }
    } else if is("shm") || is("sm2") {
        // One copy by the kernel (CMA) out of the log into the receive's
        // memory; below, two copies are cheaper than the call. Each call
        // costs a microsecond and more, so they are few.
        Way {
            fragment_bytes: 128 << 10,
            distant_bytes_min: Some(if version < SHM_ASKS_SINCE {
                8 << 10
            } else {
                64 << 10
            }),
        }
    } else {
        // Hardware reads at line rate without the sender's processor.
        Way {
            fragment_bytes: 128 << 10,
            distant_bytes_min: Some(16 << 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_libfabric::{Hints, Library};

    /// Whatever is installed, every offer has a way that works.
    #[test]
    fn every_offer_has_slots_for_what_is_sent() {
        let Ok(library) = Library::load(None) else {
            println!("skipped ways: no libfabric is installed");
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
