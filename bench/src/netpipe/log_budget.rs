//! The size of the ranks' payload log, and when the ranks free it.
//!
//! Both ranks compute the same account from the same inputs, so they call `publish_horizon` at the
//! same place without exchanging a message.

use serde::{Deserialize, Serialize};

/// Default log memory of a rank, if there is enough memory.
const DEFAULT_BYTES: u64 = 512 << 20;
/// Upper bound of the log bytes per fragment in addition to its payload: a record header, rounded
/// up to cache lines.
const FRAGMENT_OVERHEAD_BYTES: u64 = 128;
/// Minimum length of a fragment over all fabrics.
const FRAGMENT_BYTES_MIN: u64 = 4096;
/// Bytes sent between two horizons, relative to the log memory: without a disk below the memory,
/// and with one.
pub const TIMES_IN_MEMORY: f64 = 0.25;
pub const TIMES_WITH_DISK: f64 = 4.0;

/// Default log memory of one rank in bytes: 512 MiB, or an eighth of the available memory if that
/// is less; all `ranks` together use at most half of it.
pub fn default_budget_bytes(available_bytes: Option<u64>, ranks: u64) -> u64 {
    let Some(available) = available_bytes else {
        return DEFAULT_BYTES;
    };
    DEFAULT_BYTES
        .min(available / 8)
        .min(available / 2 / ranks.max(1))
}

/// Maximum of log memory for one message of `bytes`.
pub fn message_cost_bytes(bytes: u64) -> u64 {
    let fragments = bytes / FRAGMENT_BYTES_MIN + 1;
    bytes.saturating_add(fragments.saturating_mul(FRAGMENT_OVERHEAD_BYTES))
}

/// Size of a rank's log, and the part that may be used before it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRoom {
    /// Log memory in bytes.
    pub memory_bytes: u64,
    /// Bytes sent between two horizons: less than the memory, or with a disk several times the
    /// memory.
    pub between_horizons_bytes: u64,
}

impl LogRoom {
    /// A log of `memory_bytes`, of which `times` as much is sent between two horizons.
    pub fn new(memory_bytes: u64, times: f64) -> Self {
        Self {
            memory_bytes,
            between_horizons_bytes: (memory_bytes as f64 * times) as u64,
        }
    }
}

/// Account of the bytes sent since the log was last freed.
#[derive(Debug)]
pub struct LogAccount {
    /// The log; `None`: no payload is kept.
    room: Option<LogRoom>,
    sent_bytes: u64,
}

/// Messages between two horizons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The horizon must be published before the segment begins.
    pub horizon_first: bool,
    /// Messages in each direction: a multiple of the requested unit.
    pub messages: u64,
}

impl LogAccount {
    /// An account for a log of this size, or for a protocol that keeps no payload.
    pub fn new(room: Option<LogRoom>) -> Self {
        Self {
            room,
            sent_bytes: 0,
        }
    }

    /// Maximum number of messages of `bytes` that may be in flight, at least one: a quarter of the
    /// memory, and what fits between two horizons.
    pub fn messages_max(&self, bytes: u64) -> u64 {
        self.room.map_or(u64::MAX, |room| {
            let most = room.between_horizons_bytes.min(room.memory_bytes / 4);
            (most / message_cost_bytes(bytes)).max(1)
        })
    }

    /// Takes the next segment from `left` messages of `bytes`, which come in indivisible groups of
    /// `unit`, and adds it to the account. `left` is a multiple of `unit`.
    pub fn segment(&mut self, bytes: u64, left: u64, unit: u64) -> Segment {
        let Some(LogRoom {
            between_horizons_bytes: between,
            ..
        }) = self.room
        else {
            return Segment {
                horizon_first: false,
                messages: left,
            };
        };
        let unit_cost = message_cost_bytes(bytes).saturating_mul(unit);
        let horizon_first =
            self.sent_bytes > 0 && self.sent_bytes.saturating_add(unit_cost) > between;
        if horizon_first {
            self.sent_bytes = 0;
        }
        let units = ((between - self.sent_bytes.min(between)) / unit_cost).clamp(1, left / unit);
        self.sent_bytes = self
            .sent_bytes
            .saturating_add(unit_cost.saturating_mul(units));
        Segment {
            horizon_first,
            messages: units * unit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_memory(bytes: u64) -> Option<LogRoom> {
        Some(LogRoom::new(bytes, TIMES_IN_MEMORY))
    }

    /// Splits `total` messages; returns the segments.
    fn split(account: &mut LogAccount, bytes: u64, total: u64, unit: u64) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut left = total;
        while left > 0 {
            let segment = account.segment(bytes, left, unit);
            assert!(segment.messages > 0 && segment.messages.is_multiple_of(unit));
            left -= segment.messages;
            segments.push(segment);
        }
        segments
    }

    #[test]
    fn the_default_respects_small_machines_and_many_jobs() {
        assert_eq!(default_budget_bytes(None, 4), 512 << 20);
        assert_eq!(default_budget_bytes(Some(64 << 30), 4), 512 << 20);
        assert_eq!(default_budget_bytes(Some(2 << 30), 2), 256 << 20);
        assert_eq!(default_budget_bytes(Some(2 << 30), 8), 128 << 20);
    }

    #[test]
    fn never_more_than_a_quarter_between_two_horizons() {
        for bytes in [1, 4096, 65_536, 1 << 20] {
            let budget = 64 << 20;
            let mut account = LogAccount::new(in_memory(budget));
            let mut since = 0;
            for total in [1, 1000, 64] {
                for segment in split(&mut account, bytes, total, 1) {
                    if segment.horizon_first {
                        since = 0;
                    }
                    since += segment.messages * message_cost_bytes(bytes);
                    assert!(since <= budget / 4, "{bytes} bytes: {since}");
                }
            }
        }
    }

    #[test]
    fn a_horizon_comes_only_when_it_must() {
        let mut account = LogAccount::new(in_memory(64 << 20));
        let segments = split(&mut account, 1 << 20, 40, 1);
        let fit = account.messages_max(1 << 20);
        assert_eq!(fit, 15, "a quarter holds 15 with their headers");
        let lengths: Vec<_> = segments.iter().map(|segment| segment.messages).collect();
        assert_eq!(lengths, [15, 15, 10]);
        assert!(!segments[0].horizon_first);
        assert!(segments[1..].iter().all(|segment| segment.horizon_first));
        // Five more messages fit after the ten.
        assert!(!account.segment(1 << 20, 5, 1).horizon_first);
        assert!(account.segment(1 << 20, 1, 1).horizon_first);
    }

    #[test]
    fn groups_are_not_torn() {
        let mut account = LogAccount::new(in_memory(64 << 20));
        let segments = split(&mut account, 1 << 20, 40, 8);
        let lengths: Vec<_> = segments.iter().map(|segment| segment.messages).collect();
        assert_eq!(lengths, [8, 8, 8, 8, 8]);
    }

    #[test]
    fn a_message_beyond_a_quarter_goes_alone() {
        let mut account = LogAccount::new(in_memory(4 << 20));
        let segments = split(&mut account, 2 << 20, 3, 1);
        assert_eq!(segments.len(), 3);
        assert!(!segments[0].horizon_first);
        assert!(segments[1..].iter().all(|segment| segment.horizon_first));
    }

    #[test]
    fn without_a_log_nothing_is_split() {
        let mut account = LogAccount::new(None);
        let segments = split(&mut account, 1 << 30, 1 << 20, 4);
        assert_eq!(segments.len(), 1);
        assert!(!segments[0].horizon_first);
        assert_eq!(account.messages_max(1 << 30), u64::MAX);
    }

    #[test]
    fn both_ranks_derive_the_same() {
        let mut one = LogAccount::new(in_memory(32 << 20));
        let mut other = LogAccount::new(in_memory(32 << 20));
        for (bytes, total, unit) in [(1, 1_000_000, 100), (4_194_304, 7, 1), (3, 900, 9)] {
            assert_eq!(
                split(&mut one, bytes, total, unit),
                split(&mut other, bytes, total, unit)
            );
        }
    }

    #[test]
    fn with_a_disk_the_log_grows_beyond_its_memory_but_windows_do_not() {
        let room = LogRoom::new(16 << 20, TIMES_WITH_DISK);
        let mut account = LogAccount::new(Some(room));
        let segments = split(&mut account, 1 << 20, 130, 1);
        let lengths: Vec<_> = segments.iter().map(|segment| segment.messages).collect();
        assert_eq!(lengths, [62, 62, 6], "64 MiB with headers");
        assert!(segments[1..].iter().all(|segment| segment.horizon_first));
        assert_eq!(account.messages_max(1 << 20), 3, "a quarter of the memory");
    }
}
