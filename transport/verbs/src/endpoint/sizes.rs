//! How long the queues are: what is wished, within what the device can.

use super::EndpointOptions;
use super::datagrams::{HEARD_MAX, SENT_MAX};
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
    /// Queue pairs, those that are given up and not yet destroyed among them.
    pub(super) pairs: usize,
    /// Entries of the completion queue: enough for whatever is posted, as every
    /// request of a queue pair that breaks brings one.
    pub(super) completions: usize,
}

/// Requests in the send queue of one peer at most.
const SEND_ROOM: usize = 128;

impl Sizes {
    /// # Errors
    /// The device cannot have as many.
    pub(super) fn of(options: &EndpointOptions, limits: &DeviceLimits) -> Result<Self, Error> {
        let pairs = (2 * options.peers_max).clamp(2, SLOTS_MAX);
        let receives = options
            .receives_max
            .clamp(1, limits.shared_requests.max(1) as usize);
        let fixed = receives + HEARD_MAX + SENT_MAX + pairs * MARKERS_MAX;
        let operations = options
            .operations_max
            .min((limits.completions as usize).saturating_sub(fixed));
        let send_room = SEND_ROOM
            .min(operations)
            .min((limits.work_requests as usize).saturating_sub(MARKERS_MAX));
        if send_room < 2 * SIGNALLED_EVERY as usize {
            return Err(Error::invalid(
                "open an endpoint",
                format!(
                    "a completion queue of the device has {} entries at most, and {fixed} are needed \
                     for {receives} receives and {pairs} queue pairs, with {} for sending; ask for \
                     fewer receives or peers",
                    limits.completions,
                    2 * SIGNALLED_EVERY
                ),
            ));
        }
        Ok(Self {
            receives,
            operations,
            send_room,
            pairs,
            completions: fixed + operations,
        })
    }

    /// What a device that refused was asked for.
    pub(super) fn words(&self) -> String {
        format!(
            "it was to have {} entries: for {} receives, {} operations and {} queue pairs",
            self.completions, self.receives, self.operations, self.pairs
        )
    }
}
