//! Sleep interval of a server that writes do not wake: writes of clients by verbs do not
//! interrupt its processor.
//!
//! Clients that wait for the disk wait for the server to poll, so it polls often. A client
//! that does not wait for each commit needs the server only when its ring is full: then
//! the interval doubles while nothing comes, and is reset once something has come.

use crate::Level;

/// Shortest interval; also the longest where clients wait for each commit.
const INTERVAL_MIN_MS: u32 = 1;
/// Longest interval where they do not: shorter than small batches take to fill a ring.
const INTERVAL_MAX_MS: u32 = 4;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct PollInterval {
    longest_ms: u32,
    interval_ms: u32,
}

impl PollInterval {
    pub(super) fn new(level: Level) -> Self {
        Self {
            longest_ms: match level {
                Level::Placed => INTERVAL_MAX_MS,
                Level::Durable => INTERVAL_MIN_MS,
            },
            interval_ms: INTERVAL_MIN_MS,
        }
    }

    /// Resets the interval: something has come, or was sent.
    pub(super) fn moved(&mut self) {
        self.interval_ms = INTERVAL_MIN_MS;
    }

    /// The next sleep. Without [`PollInterval::moved`] in between, the following sleep
    /// is longer.
    pub(super) fn next_ms(&mut self) -> u32 {
        let interval_ms = self.interval_ms;
        self.interval_ms = (interval_ms * 2).min(self.longest_ms);
        interval_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of wake-ups in an idle second.
    fn idle_wakes(interval: &mut PollInterval) -> u32 {
        let (mut wakes, mut slept_ms) = (0, 0);
        while slept_ms < 1000 {
            slept_ms += interval.next_ms();
            wakes += 1;
        }
        wakes
    }

    #[test]
    fn an_idle_server_sleeps_longer_where_no_client_waits_for_it() {
        assert!((200..=260).contains(&idle_wakes(&mut PollInterval::new(Level::Placed))));
        assert_eq!(idle_wakes(&mut PollInterval::new(Level::Durable)), 1000);
    }

    #[test]
    fn what_has_come_makes_it_look_again_soon() {
        let mut interval = PollInterval::new(Level::Placed);
        idle_wakes(&mut interval);
        interval.moved();
        assert_eq!(interval.next_ms(), INTERVAL_MIN_MS, "a ring may be filling");
    }
}
