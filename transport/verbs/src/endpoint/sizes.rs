//! Lengths of queues, within the device's limits.

use super::EndpointOptions;
use super::send_queue::{MARKERS_MAX, SIGNALLED_EVERY};
use super::work_request::SLOTS_MAX;
use crate::{DeviceLimits, Error};

/// Lengths of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Receives that can be posted.
    pub(super) receives: usize,
    /// Requests in all send queues together.
    pub(super) operations: usize,
    /// Requests in the send queue of one pair.
    pub(super) send_room: usize,
    /// Queue pairs, including those that are stopped and not yet destroyed.
    pub(super) pairs: usize,
    /// Buffers for greetings, in each direction: at the start of a job, all peers greet at the same
    /// time.
    pub(super) greetings: usize,
    /// Entries of the completion queue: one for each request that can be posted, since every
    /// request of a broken queue pair produces a completion.
    pub(super) completions: usize,
}

/// Most requests in the send queue of one peer.
const SEND_ROOM: usize = 128;
/// Number of buffers for greetings: minimum and maximum.
const GREETINGS: core::ops::RangeInclusive<usize> = 64..=512;

impl Sizes {
    /// # Errors
    /// When the device's limits are too low.
    /// The device's limits are too low.
    pub(super) fn of(options: &EndpointOptions, limits: &DeviceLimits) -> Result<Self, Error> {
        let pairs = options.peers_max.saturating_mul(2).clamp(2, SLOTS_MAX);
        let greetings = options
            .peers_max
            .clamp(*GREETINGS.start(), *GREETINGS.end())
            .min(limits.work_requests as usize)
            .max(1);
        let others = 2 * greetings + pairs * MARKERS_MAX;
        let left = (limits.completions as usize).saturating_sub(others);
        // Operations are reduced first, but keep at least half of the entries.
        let for_receives = left.saturating_sub(options.operations_max).max(left / 2);
        let receives = options
            .receives_max
            .min(limits.shared_requests as usize)
            .min(for_receives)
            .max(1);
        let operations = options.operations_max.min(left.saturating_sub(receives));
        let send_room = SEND_ROOM
            .min(operations)
            .min((limits.work_requests as usize).saturating_sub(MARKERS_MAX));
        if send_room < 2 * SIGNALLED_EVERY as usize {
            return Err(Error::invalid(
                "open an endpoint",
                format!(
                    "a completion queue of the device has {} entries at most and a send queue {}, and \
                     {pairs} queue pairs need {others}, and sending needs {} more; request fewer peers, or more operations",
                    limits.completions,
                    limits.work_requests,
                    2 * SIGNALLED_EVERY
                ),
            ));
        }
        Ok(Self {
            receives,
            operations,
            send_room,
            pairs,
            greetings,
            completions: others + receives + operations,
        })
    }

    /// The lengths as text, for the error of a device that refuses them.
    pub(super) fn words(&self) -> String {
        format!(
            "{} entries were requested: for {} receives, {} operations and {} queue pairs",
            self.completions, self.receives, self.operations, self.pairs
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DeviceLimits = DeviceLimits {
        queue_pairs: 0,
        work_requests: 16_384,
        pieces: 0,
        completion_queues: 0,
        completions: 32_767,
        shared_queues: 0,
        shared_requests: 1 << 20,
        shared_pieces: 0,
        registrations: 0,
        registration_bytes: 0,
        address_handles: 0,
        reads_answered: 0,
        reads_begun: 0,
    };

    /// For all options: everything that can be posted at a time fits into the completion queue, and
    /// the completion queue into the device.
    #[test]
    fn the_completion_queue_holds_whatever_is_posted() {
        let wishes = [0, 1, 31, 32, 1000, 30_000, 1 << 20, usize::MAX];
        let mut opened = 0;
        for operations_max in wishes {
            for receives_max in wishes {
                for peers_max in wishes {
                    let options = EndpointOptions {
                        operations_max,
                        receives_max,
                        peers_max,
                        ..EndpointOptions::default()
                    };
                    let Ok(sizes) = Sizes::of(&options, &LIMITS) else {
                        continue;
                    };
                    opened += 1;
                    let markers = sizes.pairs * MARKERS_MAX;
                    let greetings = 2 * sizes.greetings;
                    let posted = sizes.receives + sizes.operations + greetings + markers;
                    assert!(posted <= sizes.completions, "{options:?} {sizes:?}");
                    assert!(sizes.completions <= 32_767, "{options:?} {sizes:?}");
                    assert!(sizes.operations <= operations_max);
                    assert!(sizes.receives <= receives_max.max(1));
                    assert!(sizes.send_room + MARKERS_MAX <= 16_384);
                }
            }
        }
        assert!(opened > 100, "{opened}");
    }

    #[test]
    fn what_is_asked_for_is_had_where_it_fits() {
        let sizes = Sizes::of(&EndpointOptions::default(), &LIMITS).unwrap();
        let options = EndpointOptions::default();
        assert_eq!(sizes.receives, options.receives_max);
        assert_eq!(sizes.operations, options.operations_max);
        assert_eq!(sizes.pairs, 2 * options.peers_max);
    }
}
