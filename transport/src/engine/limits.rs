//! How long the pieces are that messages go in, by peer.

use crate::fabric::Attributes;
use core::ops::Range;
use refrain_ring::copy::Target;
use refrain_ring::{CHUNK_BYTES, ChannelLog, record_bytes};

/// Left at the end of a chunk as too short for a fragment: an upper bound, not
/// the format.
const CHUNK_END_BYTES: u64 = 2048;

/// How messages to one peer are cut.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub fragment_bytes: u64,
    /// Longer messages are announced, and sent when they are asked for.
    pub eager_bytes_max: u64,
    /// Longer messages take more than one record.
    pub at_once_bytes_max: u64,
    /// Longer messages would wait for ever: a log keeps the beginning of a
    /// message until its end was received.
    pub message_bytes_max: u64,
    /// The log keeps its payload.
    pub keeps_payload: bool,
    /// Frames that are kept go around the cache.
    pub target: Target,
    /// Messages that leave before they are in the log, if they are kept there.
    pub staged_bytes: Range<u64>,
}

impl Limits {
    /// `kept_bytes`: what the channel's log may hold, if payload is kept.
    pub fn new(attributes: &Attributes, kept_bytes: Option<u64>) -> Self {
        let fragment_bytes = attributes
            .fragment_bytes
            .min(attributes.frame_payload_bytes_max);
        // A kept message must be in the log anyway: nothing is won by asking.
        let eager_bytes_max = kept_bytes.map_or(attributes.eager_bytes_max, |_| u64::MAX);
        Self {
            fragment_bytes: fragment_bytes as u64,
            keeps_payload: kept_bytes.is_some(),
            target: match kept_bytes {
                Some(_) => Target::Streaming,
                None => Target::Cached,
            },
            eager_bytes_max,
            at_once_bytes_max: eager_bytes_max.min(fragment_bytes as u64),
            staged_bytes: if kept_bytes.is_some() {
                attributes.staged_bytes.start as u64..attributes.staged_bytes.end as u64
            } else {
                0..0
            },
            message_bytes_max: kept_bytes.map_or(u64::MAX, |log_bytes| {
                kept_message_bytes_max(log_bytes, fragment_bytes)
            }),
        }
    }
}

/// The longest message that a kept log surely takes, whatever else the channel
/// sends: its first chunk may be full of what lies before.
fn kept_message_bytes_max(log_bytes: u64, fragment_bytes: usize) -> u64 {
    let chunks = log_bytes / CHUNK_BYTES as u64;
    let fragments = (ChannelLog::PAYLOAD_BYTES_MAX / record_bytes(fragment_bytes)) as u64;
    let headers = (fragments + 1) * (record_bytes(fragment_bytes) - fragment_bytes) as u64;
    let payload = ChannelLog::PAYLOAD_BYTES_MAX as u64 - headers - CHUNK_END_BYTES;
    chunks.saturating_sub(1) * payload
}
