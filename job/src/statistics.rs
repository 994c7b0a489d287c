//! Statistics of a rank: sent to the launcher at the end of a job with `--stats`.

use core::time::Duration;
use serde::{Deserialize, Serialize};

/// Number of classes of [`GateWaits`]: class 0 is below 1 µs; the limit of each further class is
/// twice that of the previous one.
pub const WAIT_CLASSES: usize = 24;

/// Durations for which emissions waited until their events were stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateWaits {
    /// Number of emissions that found the gate closed, but all events stable at their first check.
    pub at_once: u64,
    /// Number of waits by duration: class 0 is below 1 µs, class k below 2ᵏ µs; the last class has
    /// all longer waits.
    pub classes: [u64; WAIT_CLASSES],
    /// Total time of all waits, in nanoseconds.
    pub total_ns: u64,
    /// The longest wait, in nanoseconds.
    pub longest_ns: u64,
}

impl GateWaits {
    /// Counts one wait.
    pub fn record(&mut self, wait: Duration) {
        let ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let class = (ns / 1000)
            .checked_ilog2()
            .map_or(0, |log| log as usize + 1);
        self.classes[class.min(WAIT_CLASSES - 1)] += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Number of emissions that waited.
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// Adds the waits of another rank.
    pub fn add(&mut self, other: &Self) {
        self.at_once += other.at_once;
        for (class, more) in self.classes.iter_mut().zip(other.classes) {
            *class += more;
        }
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// Events of one rank by kind, and their commits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventStatistics {
    /// Matches of receives from any source, recorded alone.
    pub matches: u64,
    /// Matches merged with the completion of their receive.
    pub merged: u64,
    /// Probes that found a message.
    pub probes: u64,
    /// Completions recorded alone.
    pub completions: u64,
    /// Receives that were cancelled.
    pub cancelled: u64,
    /// Numbers and bytes that the program got from outside: times, random bytes.
    pub given: u64,
    /// Records of unsuccessful operations (such as tests and probes).
    pub nothing: u64,
    /// Unsuccessful operations, recorded or dropped.
    pub nothing_found: u64,
    /// Of the matches, those of receives from a named source (`pessimist-classic`).
    pub named: u64,
    /// Bytes of determinants.
    pub payload_bytes: u64,
    /// Bytes of determinants with the headers of their batches.
    pub batch_bytes: u64,
    /// Number of commits.
    pub commits: u64,
    /// Number of commits by their number of determinants: 1, 2 to 3, 4 to 7, … and 1024.
    pub batches: [u64; 11],
    /// Waits of emissions.
    pub waits: GateWaits,
    /// Events at other ranks (`ticket`, `causal`).
    pub at_ranks: AtRanksStatistics,
}

/// Events that ranks hold for each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtRanksStatistics {
    /// Determinants that messages carried; one that went to several ranks counts each time.
    pub carried: u64,
    /// Bytes that messages carried for them.
    pub carried_bytes: u64,
    /// Determinants that were given on the control lane, each time.
    pub given: u64,
    /// Bytes on the control lane: determinants, confirmations, trims.
    pub told_bytes: u64,
    /// Own determinants in memory.
    pub own: u64,
    /// Determinants of other ranks in memory.
    pub held: u64,
    /// Bytes of memory of both.
    pub held_bytes: u64,
}

impl AtRanksStatistics {
    fn add(&mut self, other: &Self) {
        self.carried += other.carried;
        self.carried_bytes += other.carried_bytes;
        self.given += other.given;
        self.told_bytes += other.told_bytes;
        self.own += other.own;
        self.held += other.held;
        self.held_bytes += other.held_bytes;
    }
}

impl EventStatistics {
    /// Number of all determinants.
    pub fn events(&self) -> u64 {
        self.matches
            + self.merged
            + self.probes
            + self.completions
            + self.cancelled
            + self.given
            + self.nothing
    }

    /// Adds the events of another rank.
    pub fn add(&mut self, other: &Self) {
        self.matches += other.matches;
        self.merged += other.merged;
        self.probes += other.probes;
        self.completions += other.completions;
        self.cancelled += other.cancelled;
        self.given += other.given;
        self.nothing += other.nothing;
        self.nothing_found += other.nothing_found;
        self.named += other.named;
        self.payload_bytes += other.payload_bytes;
        self.batch_bytes += other.batch_bytes;
        self.commits += other.commits;
        for (class, more) in self.batches.iter_mut().zip(other.batches) {
            *class += more;
        }
        self.waits.add(&other.waits);
        self.at_ranks.add(&other.at_ranks);
    }
}

/// Counters of one rank since it joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Messages sent.
    pub messages_sent: u64,
    /// Payload bytes of the messages sent.
    pub bytes_sent: u64,
    /// Receives posted.
    pub receives: u64,
    /// Unexpected messages.
    pub unexpected: u64,
    /// Messages sent by rendezvous.
    pub rendezvous: u64,
    /// Log memory in use, in bytes.
    pub log_bytes: u64,
    /// Log memory that may be used, in bytes.
    pub log_bytes_max: u64,
    /// Maximum of log memory in use, in bytes.
    pub log_bytes_peak: u64,
    /// Bytes appended to all logs so far, with headers and unused ends of chunks, freed or not.
    pub log_bytes_appended: u64,
    /// Bytes of log memory that were written to disk so far.
    pub log_bytes_spilled: u64,
    /// Non-deterministic outcomes that the engine saw, logged or not.
    pub events: u64,
    /// Events sent to the event logger.
    pub logged: EventStatistics,
}

impl Statistics {
    /// Adds the counters of another rank.
    pub fn add(&mut self, other: &Self) {
        self.messages_sent += other.messages_sent;
        self.bytes_sent += other.bytes_sent;
        self.receives += other.receives;
        self.unexpected += other.unexpected;
        self.rendezvous += other.rendezvous;
        self.log_bytes += other.log_bytes;
        self.log_bytes_max += other.log_bytes_max;
        self.log_bytes_peak += other.log_bytes_peak;
        self.log_bytes_appended += other.log_bytes_appended;
        self.log_bytes_spilled += other.log_bytes_spilled;
        self.events += other.events;
        self.logged.add(&other.logged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_by_powers_of_two_of_a_microsecond() {
        let mut waits = GateWaits::default();
        for ns in [0, 999, 1000, 1999, 2000, 4_000_000] {
            waits.record(Duration::from_nanos(ns));
        }
        assert_eq!(waits.classes[..4], [2, 2, 1, 0]);
        assert_eq!(waits.classes[12], 1);
        assert_eq!((waits.count(), waits.longest_ns), (6, 4_000_000));
        waits.record(Duration::MAX);
        assert_eq!(waits.classes[WAIT_CLASSES - 1], 1);
        assert_eq!(waits.total_ns, u64::MAX);
    }

    #[test]
    fn totals_are_sums() {
        let mut waits = GateWaits::default();
        waits.record(Duration::from_micros(5));
        let one = Statistics {
            messages_sent: 1,
            logged: EventStatistics {
                merged: 2,
                given: 3,
                batches: [1; 11],
                waits,
                ..EventStatistics::default()
            },
            ..Statistics::default()
        };
        let mut total = one.clone();
        total.add(&one);
        assert_eq!(total.messages_sent, 2);
        assert_eq!(total.logged.events(), 10);
        assert_eq!(total.logged.batches, [2; 11]);
        assert_eq!(total.logged.waits.count(), 2);
        assert_eq!(total.logged.waits.total_ns, 10_000);
    }
}
