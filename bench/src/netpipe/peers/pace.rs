//! The number of round trips of a peer, estimated from its last time: providers differ by a
//! factor of ten thousand.

use crate::error::BenchError;
use std::time::Duration;

/// Round trips of a first start, which only estimates the speed of the peer.
const TRIAL: u64 = 10;
const ROUND_TRIPS_MAX: u64 = 1_000_000;
/// Maximum number of starts for one size.
const STARTS_MAX: u32 = 6;
/// Bytes per µs of a slow wire: an upper bound for the additional time of a larger message.
const SLOW_BYTES_PER_US: f64 = 500.0;

/// The known speed of a peer.
#[derive(Debug)]
pub struct Pace {
    time: Duration,
    /// Bytes and half round trip in µs of the last size; `None` before the first.
    last: Option<(u64, f64)>,
}

impl Pace {
    /// A pace for a peer that may take about `time` for each size.
    pub fn new(time: Duration) -> Self {
        Self { time, last: None }
    }

    /// Calls `start` with numbers of round trips until a call took at least half of the time;
    /// returns its result. `start` returns half a round trip in µs.
    ///
    /// # Errors
    /// As `start`.
    pub fn measure(
        &mut self,
        bytes: u64,
        mut start: impl FnMut(u64) -> Result<f64, BenchError>,
    ) -> Result<f64, BenchError> {
        let mut round_trips = self.last.map_or(TRIAL, |(last_bytes, time_us)| {
            let more_us = bytes.saturating_sub(last_bytes) as f64 / SLOW_BYTES_PER_US;
            self.round_trips(time_us + more_us)
        });
        let mut starts = 0;
        loop {
            let time_us = start(round_trips)?;
            starts += 1;
            self.last = Some((bytes, time_us));
            let wanted = self.round_trips(time_us);
            if round_trips * 2 >= wanted || starts == STARTS_MAX {
                return Ok(time_us);
            }
            round_trips = wanted;
        }
    }

    /// Number of round trips that take about the time of a size.
    fn round_trips(&self, half_us: f64) -> u64 {
        let round_trip_us = 2.0 * half_us;
        ((self.time.as_secs_f64() * 1e6 / round_trip_us) as u64).clamp(TRIAL, ROUND_TRIPS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The starts of a sweep over `sizes`, as (bytes, round trips).
    fn starts(sizes: &[u64], half_us: fn(u64, u64) -> f64) -> Vec<(u64, u64)> {
        let mut pace = Pace::new(Duration::from_millis(100));
        let mut starts = Vec::new();
        for &bytes in sizes {
            let told = pace.measure(bytes, |round_trips| {
                starts.push((bytes, round_trips));
                Ok(half_us(bytes, round_trips))
            });
            assert!(told.is_ok());
        }
        starts
    }

    #[test]
    fn the_first_size_is_tried_and_the_others_follow() {
        let starts = starts(&[1, 2, 4], |_, _| 5.0);
        assert_eq!(starts[..2], [(1, TRIAL), (1, 10_000)]);
        assert_eq!(starts.len(), 4, "{starts:?}");
        assert!(starts[2..].iter().all(|(_, count)| *count > 9_900));
    }

    #[test]
    fn a_slow_wire_is_not_asked_for_more_than_it_can() {
        let slow = |bytes: u64, _| 10_000.0 + bytes as f64 / 200.0;
        for (bytes, round_trips) in starts(&[1, 64, 4 << 20], slow) {
            let seconds = 2.0 * slow(bytes, 0) * round_trips as f64 / 1e6;
            assert!(round_trips == TRIAL || seconds < 0.2, "{bytes}: {seconds}");
        }
    }

    #[test]
    fn a_first_guess_that_was_far_off_is_made_again() {
        // The time of a trial's few round trips includes connecting.
        let warming = |_, round_trips: u64| 0.5 + 2_000.0 / round_trips as f64;
        let starts = starts(&[8], warming);
        assert!(starts.len() <= STARTS_MAX as usize);
        assert!(starts.last().unwrap().1 > 10_000, "{starts:?}");
    }

    #[test]
    fn an_error_ends_it() {
        let mut pace = Pace::new(Duration::from_millis(1));
        let told = pace.measure(1, |_| Err(BenchError::Interrupted));
        assert!(matches!(told, Err(BenchError::Interrupted)));
    }
}
