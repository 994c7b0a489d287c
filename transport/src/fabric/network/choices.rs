//! The choices that follow from the [`PayloadPath`] of a provider.

use core::ops::Range;
use refrain_ring::ChannelLog;

/// Bytes of memory for messages that arrive, of one rank, for all its peers.
const RECEIVE_BYTES: usize = 64 << 20;
/// Minimum length of a slot, in bytes. With very many peers the memory exceeds `RECEIVE_BYTES`
/// instead.
const SLOT_BYTES_MIN: usize = 4 << 10;
const CREDITS_MIN: usize = 4;
const CREDITS_MAX: usize = 64;
/// Maximum number of control frames in flight to one peer.
pub const CONTROL_CREDITS: usize = 16;
/// Receives for messages without credits: acknowledgements, questions, greetings. Such messages are
/// rare; those beyond these receives wait at the provider.
const UNCREDITED: usize = 8;

/// How frames travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Payload bytes per frame of long messages.
    pub fragment_bytes: usize,
    /// Payloads from this length on are read by the receiver; `None`: never.
    pub distant_bytes_min: Option<usize>,
    /// Maximum number of frames in flight to one peer.
    pub credits: usize,
    /// Number of receives that are posted.
    pub receives: usize,
    /// Payload lengths, in bytes, of frames that are sent before they are in the log.
    pub staged_bytes: Range<usize>,
}

/// Below this length a record is written through the cache anyway.
const STAGED_BYTES_MIN: usize = refrain_ring::copy::STREAM_BYTES_MIN;

/// How long messages travel best over one kind of provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadPath {
    /// Payload bytes per frame.
    pub fragment_bytes: usize,
    /// Payloads from this length on are read by the receiver; `None`: never.
    pub distant_bytes_min: Option<usize>,
}

/// The limits of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a message, in bytes.
    pub message_bytes_max: usize,
    /// Maximum number of receives that are posted together.
    pub receives_max: usize,
    /// Whether it can read memory of peers.
    pub can_read: bool,
}

/// Settings that override the choices, for tests and measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Payload bytes per frame of long messages.
    pub fragment_bytes: Option<usize>,
    /// Payloads from this length on are read by the receiver; 0: never.
    pub distant_bytes_min: Option<usize>,
    /// Maximum number of frames in flight to one peer.
    pub credits: Option<usize>,
}

impl Choices {
    /// Makes the choices for one provider in a job of `size` ranks.
    pub fn new(mut path: PayloadPath, limits: Limits, size: u32, overrides: Overrides) -> Self {
        if let Some(bytes) = overrides.fragment_bytes {
            path.fragment_bytes = bytes.clamp(64, ChannelLog::PAYLOAD_BYTES_MAX);
        }
        if let Some(bytes) = overrides.distant_bytes_min {
            path.distant_bytes_min = (bytes > 0).then_some(bytes.max(64));
        }
        if !limits.can_read {
            path.distant_bytes_min = None;
        }
        let longest = limits.message_bytes_max.saturating_sub(256);
        path.fragment_bytes = path.fragment_bytes.min(longest);
        let peers = size.saturating_sub(1).max(1) as usize;
        // In a job of many ranks slots are shorter and credits fewer. The choice depends on
        // the size of the job alone: it is the same for all ranks.
        let slots_min = peers * (CREDITS_MIN + CONTROL_CREDITS + UNCREDITED);
        if overrides == Overrides::default() {
            path.shorten((RECEIVE_BYTES / slots_min).max(SLOT_BYTES_MIN) - 128);
        }
        // A payload longer than a slot must be read by the receiver: a message with it would be cut
        // off on every arrival.
        let cannot_be_sent = path.fragment_bytes + 1;
        path.distant_bytes_min = path
            .distant_bytes_min
            .map(|bytes| bytes.min(cannot_be_sent));
        let slot_bytes = slot_payload_bytes(path.fragment_bytes, path.distant_bytes_min) + 128;
        let slots = RECEIVE_BYTES / peers / slot_bytes;
        let credits = slots
            .saturating_sub(CONTROL_CREDITS + UNCREDITED)
            .clamp(CREDITS_MIN, CREDITS_MAX);
        let credits = overrides.credits.unwrap_or(credits).max(2);
        let receives = peers.saturating_mul(credits + CONTROL_CREDITS + UNCREDITED);
        Self {
            fragment_bytes: path.fragment_bytes,
            distant_bytes_min: path.distant_bytes_min,
            credits,
            // Staging pays off where messages are copied when they are sent.
            staged_bytes: match path.distant_bytes_min {
                None => STAGED_BYTES_MIN..path.fragment_bytes + 1,
                Some(_) => 0..0,
            },
            // Messages beyond these receives wait at the provider.
            receives: receives.min(limits.receives_max.max(16)),
        }
    }

    /// The length of fragments in a log of `window_bytes`. A log whose memory is reused has to hold
    /// several fragments while others are acknowledged.
    pub fn fragment_bytes_in(&self, window_bytes: u64) -> usize {
        let is_tight = window_bytes < 16 * self.fragment_bytes as u64;
        if is_tight && self.distant_bytes_min.is_none() {
            self.fragment_bytes.div_ceil(2)
        } else {
            self.fragment_bytes
        }
    }

    /// The longest payload that arrives in a message.
    pub fn slot_payload_bytes(&self) -> usize {
        slot_payload_bytes(self.fragment_bytes, self.distant_bytes_min)
    }

    /// The longest payload that is never read by the receiver.
    pub fn attached_bytes_max(&self) -> usize {
        let distant = self.distant_bytes_min;
        distant.map_or(self.fragment_bytes, |bytes| bytes - 1)
    }

    /// The longest payload of a frame.
    pub fn payload_bytes_max(&self) -> usize {
        if self.distant_bytes_min.is_some() {
            ChannelLog::PAYLOAD_BYTES_MAX
        } else {
            self.fragment_bytes
        }
    }
}

impl PayloadPath {
    /// Limits the payload of messages.
    fn shorten(&mut self, slot_payload_bytes: usize) {
        match &mut self.distant_bytes_min {
            Some(bytes) => *bytes = (*bytes).min(slot_payload_bytes + 1),
            None => self.fragment_bytes = self.fragment_bytes.min(slot_payload_bytes),
        }
    }
}

fn slot_payload_bytes(fragment_bytes: usize, distant_bytes_min: Option<usize>) -> usize {
    distant_bytes_min.map_or(fragment_bytes, |bytes| {
        bytes.saturating_sub(1).min(fragment_bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [PayloadPath; 3] = [
        PayloadPath {
            fragment_bytes: 128 << 10,
            distant_bytes_min: None,
        },
        PayloadPath {
            fragment_bytes: (16 << 10) - 128,
            distant_bytes_min: None,
        },
        PayloadPath {
            fragment_bytes: 128 << 10,
            distant_bytes_min: Some(16 << 10),
        },
    ];

    /// Memory for arrivals stays within its limit until slots have their minimum length. From there
    /// it grows with the number of peers.
    #[test]
    fn memory_for_arrivals_is_bounded() {
        let limits = Limits {
            message_bytes_max: usize::MAX,
            receives_max: usize::MAX >> 1,
            can_read: true,
        };
        for path in PATHS {
            for size in [1, 2, 3, 16, 100, 500, 4096] {
                let choices = Choices::new(path, limits, size, Overrides::default());
                let slot_bytes = choices.slot_payload_bytes() + 128;
                let bytes = choices.receives * slot_bytes;
                let peers = size.saturating_sub(1).max(1) as usize;
                let least = peers * (CREDITS_MIN + CONTROL_CREDITS + UNCREDITED) * SLOT_BYTES_MIN;
                assert!(
                    bytes <= RECEIVE_BYTES.max(least),
                    "{path:?} of {size} ranks: {choices:?} take {bytes} bytes"
                );
                assert!(choices.credits >= CREDITS_MIN && choices.fragment_bytes > 1000);
            }
        }
    }

    /// Overrides do not choose what a provider cannot do.
    #[test]
    fn limits_hold() {
        let limits = Limits {
            message_bytes_max: 10_000,
            receives_max: 100,
            can_read: false,
        };
        let overrides = Overrides {
            distant_bytes_min: Some(1),
            ..Overrides::default()
        };
        for path in PATHS {
            let choices = Choices::new(path, limits, 64, overrides);
            assert_eq!(choices.distant_bytes_min, None);
            assert!(choices.receives <= 100);
            assert!(choices.slot_payload_bytes() + 256 <= 10_000);
        }
    }
}
