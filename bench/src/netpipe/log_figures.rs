//! The cost of the payload log, and its speed relative to that of its disk.

use super::command::Samples;
use super::log_use::LogUse;
use crate::summary::{Summary, median};
use serde::{Deserialize, Serialize};

/// Figures of the log of a protocol that keeps payload; all `None` otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogFigures {
    /// Bytes of the log per byte of payload, with headers and unused ends of chunks.
    pub log_bytes_per_payload_byte: Option<f64>,
    /// Events sent to the event logger per message (table I of Bouteiller, Bosilca, Dongarra
    /// 2007).
    pub events_per_message: Option<f64>,
    /// Bytes of log memory that a rank may use.
    pub log_memory_bytes: Option<u64>,
    /// Maximum of log memory that a rank has used, in bytes.
    pub log_memory_peak_bytes: Option<u64>,
    /// Bytes that one rank logged in a round, relative to its log memory: below 1 the memory alone
    /// may have held them. Median over the rounds.
    pub log_times_memory: Option<f64>,
    /// The part of the log that was written to disk; a horizon freed the rest before.
    pub log_part_on_disk: Option<f64>,
    /// Resident memory of the larger rank in bytes: with its log, and over shared memory also with
    /// the other rank's log, which it reads.
    pub resident_bytes: Option<u64>,
}

impl LogFigures {
    /// Figures of the rounds of one size, for two ranks with `memory_bytes` each.
    pub fn of(rounds: &[Samples], memory_bytes: u64) -> Self {
        let uses = || rounds.iter().map(|round| round.log);
        let sum = uses().fold(LogUse::default(), |sum, log| sum.and(&log));
        let ratio = |of: u64, to: u64| (to > 0).then(|| of as f64 / to as f64);
        let memory = memory_bytes.max(1) as f64;
        Self {
            log_bytes_per_payload_byte: ratio(sum.appended_bytes, sum.payload_bytes),
            events_per_message: ratio(sum.events, sum.messages),
            log_part_on_disk: ratio(sum.spilled_bytes, sum.appended_bytes),
            log_memory_bytes: Some(memory_bytes),
            log_memory_peak_bytes: uses().map(|log| log.peak_bytes).max(),
            log_times_memory: median(uses().map(|log| log.appended_bytes as f64 / 2.0 / memory)),
            resident_bytes: uses().map(|log| log.resident_bytes).max(),
        }
    }
}

/// Figures of the disk below the log; all `None` without a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskFigures {
    /// Speed of the disk alone for all ranks together: median over the rounds.
    pub disk_bytes_per_s: Option<f64>,
    /// Its inter-quartile range, relative to the median.
    pub disk_spread: Option<f64>,
    /// The highest possible speed of payload: the lower of the speed of `none` and the speed at
    /// which the disk can log. Median over the rounds.
    pub target_gbit_per_s: Option<f64>,
    /// The speed of payload, from mean times, relative to the target. Median of the ratios within
    /// a round.
    pub of_target: Option<f64>,
}

impl DiskFigures {
    /// Figures from payload bytes per second in each round: of the protocol (`moved`), of `none`
    /// if it was measured, and of the disk alone, which must write `log_bytes_per_payload_byte`.
    pub fn of(
        moved: &[f64],
        none: Option<&[f64]>,
        disk: &[f64],
        log_bytes_per_payload_byte: Option<f64>,
    ) -> Self {
        let log_bytes = log_bytes_per_payload_byte
            .unwrap_or(1.0)
            .max(f64::MIN_POSITIVE);
        let target = |round: usize| {
            let none = none.map_or(Some(f64::INFINITY), |none| none.get(round).copied())?;
            Some(none.min(disk.get(round)? / log_bytes))
        };
        let target_bytes_per_s = median((0..moved.len()).filter_map(target));
        let ratios = moved.iter().enumerate().filter_map(|(round, moved)| {
            let target = target(round).filter(|target| *target > 0.0)?;
            Some(moved / target)
        });
        let disk = Summary::of(disk.iter().copied());
        Self {
            disk_bytes_per_s: disk.map(|disk| disk.median),
            disk_spread: disk.map(Summary::spread),
            target_gbit_per_s: target_bytes_per_s.map(|bytes| bytes * 8.0 / 1e9),
            of_target: median(ratios),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_counted_over_all_rounds_and_both_ranks() {
        let round = |appended_bytes, peak_bytes| Samples {
            log: LogUse {
                appended_bytes,
                spilled_bytes: 550,
                payload_bytes: 1000,
                messages: 10,
                events: 5,
                peak_bytes,
                resident_bytes: 7,
            },
            ..Samples::default()
        };
        let log = LogFigures::of(&[round(1000, 50), round(1100, 90), round(1200, 80)], 100);
        assert_eq!(log.log_bytes_per_payload_byte, Some(1.1));
        assert_eq!(log.log_part_on_disk, Some(0.5));
        assert_eq!(log.events_per_message, Some(0.5));
        assert_eq!(log.log_memory_peak_bytes, Some(90));
        assert_eq!(log.log_times_memory, Some(5.5), "half of it each rank's");
        assert_eq!(LogFigures::of(&[], 100).log_bytes_per_payload_byte, None);
    }

    #[test]
    fn the_target_is_the_slower_of_network_and_disk_in_the_same_round() {
        // The disk limits round 0 (it must write twice the payload), `none` limits round 1.
        let disk = [2.0e9, 8.0e9];
        let none = [3.0e9, 2.0e9];
        let of = DiskFigures::of(&[0.9e9, 1.8e9], Some(&none), &disk, Some(2.0));
        assert!((of.of_target.unwrap() - 0.9).abs() < 1e-9, "{of:?}");
        assert_eq!(of.disk_bytes_per_s, Some(5.0e9));
        assert_eq!(of.target_gbit_per_s, Some(12.0), "median of 8 and 16");
        let alone = DiskFigures::of(&[1.0e9, 1.0e9], None, &disk, None);
        assert_eq!(alone.of_target, Some(0.3125));
        assert_eq!(
            DiskFigures::of(&[1.0], Some(&[1.0]), &[], None),
            DiskFigures::default()
        );
    }
}
