//! The rank that a policy chooses next.

use super::choice::Choice;
use core::cmp::Ordering;
use refrain_ring::Rank;

/// The lowest cost of a checkpoint, so that a cheap rank is not chosen again and again for little
/// gain.
const COST_BYTES_MIN: u64 = 64 << 10;

/// The status of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankStatus {
    /// The rank.
    pub rank: Rank,
    /// Bytes of messages that the rank has received since its last checkpoint.
    pub received_bytes: u64,
    /// Bytes that the rank has sent since its last checkpoint.
    pub sent_bytes: u64,
    /// Bytes of the rank's own payload log that are not freed.
    pub log_bytes: u64,
    /// Bytes of the rank's last checkpoint without its log; 0 before the first one.
    pub state_bytes: u64,
    /// Time of the last checkpoint, or of the rank's beginning, in the caller's unit.
    pub since: u64,
    /// Whether the rank can take a checkpoint now: it lives, and takes none yet.
    pub is_ready: bool,
}

/// The state of a policy.
#[derive(Clone, Debug)]
pub struct Policy {
    choice: Choice,
    /// The rank that was chosen last.
    last: Option<Rank>,
}

/// Compares `a / b` with `c / d`; 0 / 0 counts as 0.
fn compare_ratios((a, b): (u64, u64), (c, d): (u64, u64)) -> Ordering {
    let is_infinite = |(over, under): (u64, u64)| under == 0 && over > 0;
    match (is_infinite((a, b)), is_infinite((c, d))) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let (b, d) = (b.max(1), d.max(1));
            (u128::from(a) * u128::from(d)).cmp(&(u128::from(c) * u128::from(b)))
        }
    }
}

/// The cost of a checkpoint of the rank, as far as known, in bytes.
fn cost_bytes(status: &RankStatus) -> u64 {
    let bytes = status.log_bytes.saturating_add(status.state_bytes);
    bytes.max(COST_BYTES_MIN)
}

impl Policy {
    /// A policy at its beginning.
    pub fn new(choice: Choice) -> Self {
        Self { choice, last: None }
    }

    /// The policy.
    pub fn choice(&self) -> Choice {
        self.choice
    }

    /// The rank to request a checkpoint from now, if any. `ranks` is in rank order; `now` is in the
    /// unit of [`RankStatus::since`].
    pub fn next(&mut self, now: u64, ranks: &[RankStatus]) -> Option<Rank> {
        let ready = ranks.iter().filter(|status| status.is_ready);
        let ordered = match self.choice {
            Choice::None => None,
            Choice::RoundRobin => {
                let is_behind =
                    |status: &&RankStatus| self.last.is_none_or(|last| status.rank > last);
                ready
                    .clone()
                    .find(is_behind)
                    .or_else(|| ready.clone().next())
            }
            Choice::Adaptive => best(ready, |a, b| worth(now, a).total_cmp(&worth(now, b))),
            Choice::Ratio => best(ready, |a, b| {
                let ratio = |it: &RankStatus| (it.received_bytes, it.sent_bytes);
                compare_ratios(ratio(a), ratio(b))
            }),
            Choice::Interval { every } => ready
                .filter(|status| now.saturating_sub(status.since) >= every)
                .min_by_key(|status| (status.since, status.rank)),
        }?;
        self.last = Some(ordered.rank);
        self.last
    }
}

/// The bytes that a checkpoint of the rank frees per byte of cost, times the time since the last
/// one. If each rank receives at its own constant rate, the sum of all logs is least when a rank
/// waits for a time proportional to the square root of cost / rate; then this value is the same for
/// all ranks. Without the time, the rates would count twice.
fn worth(now: u64, status: &RankStatus) -> f64 {
    let waited = now.saturating_sub(status.since).max(1);
    status.received_bytes as f64 * waited as f64 / cost_bytes(status) as f64
}

/// Of the ranks whose checkpoint frees anything, the highest in the order `compare`. Ties go to the
/// rank that has received most, then to the rank that has waited longest.
fn best<'a>(
    ready: impl Iterator<Item = &'a RankStatus>,
    compare: impl Fn(&RankStatus, &RankStatus) -> Ordering,
) -> Option<&'a RankStatus> {
    ready
        .filter(|status| status.received_bytes > 0)
        .max_by(|a, b| {
            compare(a, b)
                .then(a.received_bytes.cmp(&b.received_bytes))
                .then(b.since.cmp(&a.since))
                .then(b.rank.cmp(&a.rank))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_compared_exactly() {
        let big = u64::MAX;
        for (a, b, expected) in [
            ((1, 2), (2, 4), Ordering::Equal),
            ((big, big - 1), (big, big), Ordering::Greater),
            ((0, 0), (1, big), Ordering::Less),
            ((1, 0), (big, 1), Ordering::Greater),
            ((1, 0), (2, 0), Ordering::Equal),
            ((0, 0), (0, 5), Ordering::Equal),
        ] {
            assert_eq!(compare_ratios(a, b), expected, "{a:?} {b:?}");
            assert_eq!(compare_ratios(b, a), expected.reverse(), "{b:?} {a:?}");
        }
    }
}
