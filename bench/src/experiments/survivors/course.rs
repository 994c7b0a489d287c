//! The rate of a pair over time, from its notes. Pure.

use crate::workload::pairs::{Note, Standstill};

/// Range of the drawing, before and after the beginning of a standstill.
pub const BEFORE_MS: u64 = 40;
pub const AFTER_MS: u64 = 160;
pub const STEP_MS: u64 = 4;
/// Time at the start of a job that is ignored, since the rate is not steady yet.
const WARM_UP_NS: u64 = 100_000_000;
const NS_PER_MS: u64 = 1_000_000;

impl Standstill {
    /// Duration of the standstill.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

/// The longest standstills, ordered by time.
pub fn longest(mut standstills: Vec<Standstill>, count: usize) -> Vec<Standstill> {
    standstills.sort_by_key(|standstill| std::cmp::Reverse(standstill.length_ns()));
    standstills.truncate(count);
    standstills.sort_by_key(|standstill| standstill.begin_ns);
    standstills
}

/// The notes of a pair, ordered by time.
#[derive(Clone, Debug)]
pub struct Course(Vec<Note>);

impl Course {
    pub fn new(notes: Vec<Note>) -> Self {
        Self(notes)
    }

    /// Number of round trips up to a time, interpolated between two notes. `None` outside of the
    /// noted time.
    fn round_trips(&self, at_ns: u64) -> Option<f64> {
        let after = self.0.partition_point(|note| note.at_ns < at_ns);
        let next = self.0.get(after)?;
        let before = match after.checked_sub(1) {
            Some(before) => self.0[before],
            None if next.at_ns == at_ns => *next,
            None => return None,
        };
        let whole_ns = next.at_ns - before.at_ns;
        if whole_ns == 0 {
            return Some(next.round_trips as f64);
        }
        let part = (at_ns - before.at_ns) as f64 / whole_ns as f64;
        let more = next.round_trips - before.round_trips;
        Some(before.round_trips as f64 + more as f64 * part)
    }

    /// Rate between two times. `None` if they are not within the noted time.
    pub fn rate_per_s(&self, begin_ns: u64, end_ns: u64) -> Option<f64> {
        let count = self.round_trips(end_ns)? - self.round_trips(begin_ns)?;
        (end_ns > begin_ns).then(|| count / ((end_ns - begin_ns) as f64 / 1e9))
    }

    /// Rate outside of all `windows`, which are ordered by time.
    pub fn outside_per_s(&self, windows: &[Standstill]) -> f64 {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else {
            return f64::NAN;
        };
        let (mut round_trips, mut time_ns) = (0.0, 0);
        let mut begin_ns = first.at_ns + WARM_UP_NS;
        let ends = windows
            .iter()
            .map(|window| (window.begin_ns, window.end_ns));
        for (end_ns, next_ns) in ends.chain([(last.at_ns, last.at_ns)]) {
            if let (true, Some(begin), Some(end)) = (
                begin_ns < end_ns,
                self.round_trips(begin_ns),
                self.round_trips(end_ns),
            ) {
                round_trips += end - begin;
                time_ns += end_ns - begin_ns;
            }
            begin_ns = begin_ns.max(next_ns);
        }
        round_trips / (time_ns as f64 / 1e9)
    }

    /// The rate by time around `at_ns`, relative to `whole_per_s`; NaN where nothing was noted.
    pub fn around(&self, at_ns: u64, whole_per_s: f64) -> Vec<f64> {
        let begin_ns = at_ns - BEFORE_MS * NS_PER_MS;
        (0..(BEFORE_MS + AFTER_MS) / STEP_MS)
            .map(|step| {
                let from_ns = begin_ns + step * STEP_MS * NS_PER_MS;
                let rate = self.rate_per_s(from_ns, from_ns + STEP_MS * NS_PER_MS);
                rate.map_or(f64::NAN, |rate| rate / whole_per_s)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn standstill(begin_ns: u64, end_ns: u64) -> Standstill {
        Standstill { begin_ns, end_ns }
    }

    /// 1000 round trips per second, but 500 per second in the 11th second.
    fn course() -> Course {
        let notes = (0..=2000).map(|step| {
            let at_ns = 5 * S + step * 10_000_000;
            let fast = step.min(1000) + step.saturating_sub(1100);
            let round_trips = fast * 10 + step.clamp(1000, 1100) * 5 - 5000;
            Note { at_ns, round_trips }
        });
        Course::new(notes.collect())
    }

    #[test]
    fn rates_are_those_of_the_notes() {
        let course = course();
        let rate = |from, to| course.rate_per_s(from, to).unwrap().round();
        assert_eq!(rate(6 * S, 7 * S), 1000.0);
        assert_eq!(rate(15 * S, 16 * S), 500.0);
        assert_eq!(rate(14 * S + S / 2, 15 * S + S / 2), 750.0);
        assert_eq!(rate(6 * S + 123, 6 * S + 5_000_123), 1000.0);
        assert_eq!(course.rate_per_s(4 * S, 6 * S), None);
        assert_eq!(course.rate_per_s(24 * S, 26 * S), None);
        assert_eq!(course.rate_per_s(7 * S, 7 * S), None);
    }

    #[test]
    fn what_is_outside_does_not_count_what_is_inside() {
        let slow = standstill(15 * S, 16 * S);
        assert_eq!(course().outside_per_s(&[slow]).round(), 1000.0);
        assert!(course().outside_per_s(&[]).round() < 980.0);
        let two = [standstill(7 * S, 8 * S), slow];
        assert_eq!(course().outside_per_s(&two).round(), 1000.0);
        assert!(Course::new(Vec::new()).outside_per_s(&[]).is_nan());
    }

    #[test]
    fn around_a_moment_there_are_steps() {
        let around = course().around(15 * S, 1000.0);
        assert_eq!(around.len(), 50);
        assert_eq!(around[0].round(), 1.0);
        assert!((around[49] - 0.5).abs() < 1e-6, "{around:?}");
        assert!(course().around(5 * S, 1000.0)[0].is_nan());
    }

    #[test]
    fn the_longest_are_taken_in_the_order_of_time() {
        let all = vec![
            standstill(1, 2),
            standstill(10, 90),
            standstill(100, 105),
            standstill(200, 220),
        ];
        assert_eq!(longest(all.clone(), 2), [all[1], all[3]]);
        assert_eq!(longest(all, 9).len(), 4);
    }
}
