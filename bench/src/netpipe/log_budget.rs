//! How much payload log the ranks have, and when they must free it.
//!
//! Both ranks keep the same account from the same inputs, so they call
//! `publish_horizon` at the same place without a word between them.

/// Log memory of a rank when neither `--log-memory` nor scarcity says otherwise.
const DEFAULT_BYTES: u64 = 512 << 20;
/// What the log may need beside the payload, per fragment: a record header,
/// rounded up to lines. An upper bound, not the format.
const FRAGMENT_OVERHEAD_BYTES: u64 = 128;
/// No fabric cuts finer.
const FRAGMENT_BYTES_MIN: u64 = 4096;

/// Log memory of one rank in bytes: 512 MiB, or an eighth of the available
/// memory if that is less; together all `ranks` never plan for more than half.
pub fn default_budget_bytes(available_bytes: Option<u64>, ranks: u64) -> u64 {
    let Some(available) = available_bytes else {
        return DEFAULT_BYTES;
    };
    DEFAULT_BYTES
        .min(available / 8)
        .min(available / 2 / ranks.max(1))
}

/// Log memory that one message of `bytes` takes at most.
pub fn message_cost_bytes(bytes: u64) -> u64 {
    let fragments = bytes / FRAGMENT_BYTES_MIN + 1;
    bytes.saturating_add(fragments.saturating_mul(FRAGMENT_OVERHEAD_BYTES))
}

/// What was sent since the log was last freed.
#[derive(Debug)]
pub struct LogAccount {
    /// A quarter of the budget; `None`: nothing is kept.
    quarter_bytes: Option<u64>,
    sent_bytes: u64,
}

/// A stretch of messages between two horizons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The horizon must be published before it begins.
    pub horizon_first: bool,
    /// Messages in each direction: a multiple of the unit asked for.
    pub messages: u64,
}

impl LogAccount {
    /// For a log of `budget_bytes`, or for a protocol that keeps nothing.
    pub fn new(budget_bytes: Option<u64>) -> Self {
        Self {
            quarter_bytes: budget_bytes.map(|budget| budget / 4),
            sent_bytes: 0,
        }
    }

    /// How many messages of `bytes` fit between two horizons, at least one.
    pub fn messages_max(&self, bytes: u64) -> u64 {
        self.quarter_bytes.map_or(u64::MAX, |quarter| {
            (quarter / message_cost_bytes(bytes)).max(1)
        })
    }

    /// Takes the next segment out of `left` messages of `bytes`, which come in
    /// indivisible groups of `unit`; accounts for it. `left` is a multiple of
    /// `unit`.
    pub fn segment(&mut self, bytes: u64, left: u64, unit: u64) -> Segment {
        let Some(quarter) = self.quarter_bytes else {
            return Segment {
                horizon_first: false,
                messages: left,
            };
        };
        let unit_cost = message_cost_bytes(bytes).saturating_mul(unit);
        let horizon_first =
            self.sent_bytes > 0 && self.sent_bytes.saturating_add(unit_cost) > quarter;
        if horizon_first {
            self.sent_bytes = 0;
        }
        let units = ((quarter - self.sent_bytes.min(quarter)) / unit_cost).clamp(1, left / unit);
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
            let mut account = LogAccount::new(Some(budget));
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
        let mut account = LogAccount::new(Some(64 << 20));
        let segments = split(&mut account, 1 << 20, 40, 1);
        let fit = account.messages_max(1 << 20);
        assert_eq!(fit, 15, "a quarter holds 15 with their headers");
        let lengths: Vec<_> = segments.iter().map(|segment| segment.messages).collect();
        assert_eq!(lengths, [15, 15, 10]);
        assert!(!segments[0].horizon_first);
        assert!(segments[1..].iter().all(|segment| segment.horizon_first));
        // Five more fit behind the ten.
        assert!(!account.segment(1 << 20, 5, 1).horizon_first);
        assert!(account.segment(1 << 20, 1, 1).horizon_first);
    }

    #[test]
    fn groups_are_not_torn() {
        let mut account = LogAccount::new(Some(64 << 20));
        let segments = split(&mut account, 1 << 20, 40, 8);
        let lengths: Vec<_> = segments.iter().map(|segment| segment.messages).collect();
        assert_eq!(lengths, [8, 8, 8, 8, 8]);
    }

    #[test]
    fn a_message_beyond_a_quarter_goes_alone() {
        let mut account = LogAccount::new(Some(4 << 20));
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
        let mut one = LogAccount::new(Some(32 << 20));
        let mut other = LogAccount::new(Some(32 << 20));
        for (bytes, total, unit) in [(1, 1_000_000, 100), (4_194_304, 7, 1), (3, 900, 9)] {
            assert_eq!(
                split(&mut one, bytes, total, unit),
                split(&mut other, bytes, total, unit)
            );
        }
    }
}
