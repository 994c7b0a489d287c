//! What a round did to the payload log, and what memory the rank has.

use crate::machine::resident_bytes;
use refrain::{Statistics, World};
use serde::{Deserialize, Serialize};

/// Of one rank, or of both together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogUse {
    /// What the round's messages took in the log, freed or not.
    pub appended_bytes: u64,
    /// What went to disk meanwhile.
    pub spilled_bytes: u64,
    /// Payload of the messages.
    pub payload_bytes: u64,
    /// Messages sent.
    pub messages: u64,
    /// Events that went to the event logger.
    pub events: u64,
    /// Log memory in use since the rank began, at most; of the rank with more.
    pub peak_bytes: u64,
    /// Resident memory of the rank, with its log; of the rank with more.
    pub resident_bytes: u64,
}

impl LogUse {
    /// Of this rank and another one.
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
}

/// The counters before a round.
#[derive(Debug)]
pub struct Before(Statistics);

impl Before {
    pub fn of(world: &World) -> Self {
        Self(world.statistics())
    }

    /// What has happened since.
    pub fn until_now(&self, world: &World) -> LogUse {
        let now = world.statistics();
        LogUse {
            appended_bytes: now.log_bytes_appended - self.0.log_bytes_appended,
            spilled_bytes: now.log_bytes_spilled - self.0.log_bytes_spilled,
            payload_bytes: now.bytes_sent - self.0.bytes_sent,
            messages: now.messages_sent - self.0.messages_sent,
            events: now.logged.events() - self.0.logged.events(),
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
