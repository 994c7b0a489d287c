//! Use of the payload log in a round, and memory of the rank.

use crate::machine::resident_bytes;
use refrain::{Statistics, World};
use serde::{Deserialize, Serialize};

/// Use by one rank, or by both together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogUse {
    /// Bytes of the round's messages in the log, freed or not.
    pub appended_bytes: u64,
    /// Bytes written to disk meanwhile.
    pub spilled_bytes: u64,
    /// Payload bytes of the messages.
    pub payload_bytes: u64,
    /// Messages sent.
    pub messages: u64,
    /// Events sent to the event logger.
    pub events: u64,
    /// Maximum of log memory in use since the rank began; of two ranks, the larger value.
    pub peak_bytes: u64,
    /// Resident memory of the rank, with its log; of two ranks, the larger value.
    pub resident_bytes: u64,
}

impl LogUse {
    /// Use by this rank and another one together.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            appended_bytes: self.appended_bytes + other.appended_bytes,
            spilled_bytes: self.spilled_bytes + other.spilled_bytes,
            payload_bytes: self.payload_bytes + other.payload_bytes,
            messages: self.messages + other.messages,
            events: self.events + other.events,
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
            resident_bytes: self.resident_bytes.max(other.resident_bytes),
        }
    }

    /// Use by this rank since its counters had the values `before`.
    pub fn since(before: &Statistics, world: &World) -> Self {
        let now = world.statistics();
        Self {
            appended_bytes: now.log_bytes_appended - before.log_bytes_appended,
            spilled_bytes: now.log_bytes_spilled - before.log_bytes_spilled,
            payload_bytes: now.bytes_sent - before.bytes_sent,
            messages: now.messages_sent - before.messages_sent,
            events: now.logged.events() - before.logged.events(),
            peak_bytes: now.log_bytes_peak,
            resident_bytes: resident_bytes("self").unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ranks_bytes_add_up_and_the_larger_memory_counts() {
        let of = |n: u64| LogUse {
            appended_bytes: n,
            spilled_bytes: 2 * n,
            payload_bytes: 10 * n,
            messages: 3 * n,
            events: 4 * n,
            peak_bytes: 100 - n,
            resident_bytes: n,
        };
        let both = of(1).and(&of(2));
        assert_eq!((both.appended_bytes, both.payload_bytes), (3, 30));
        assert_eq!(both.spilled_bytes, 6);
        assert_eq!((both.messages, both.events), (9, 12));
        assert_eq!((both.peak_bytes, both.resident_bytes), (99, 2));
    }
}
