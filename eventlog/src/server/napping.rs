//! How long a server sleeps whom nobody wakes: clients that write by verbs do it
//! without a word to its processor.
//!
//! Who has just committed, commits again soon, and where it waits for the disk it
//! waits for the server to look: so the server looks all the time for a short
//! while, and then once in a while, and more and more seldom while nothing comes. A
//! client that does not wait for each commit needs nothing before its ring is full.

use crate::Level;
use std::time::{Duration, Instant};

/// How long it looks without sleep after something came that a client waits for.
const LOOKS: Duration = Duration::from_micros(100);
/// The first sleep, and the longest where clients wait for each commit.
const NAP_MIN_MS: u32 = 1;
/// The longest where they do not: much less than a ring takes to be filled.
const NAP_MAX_MS: u32 = 4;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Napping {
    level: Level,
    moved_at: Option<Instant>,
    nap_ms: u32,
}

impl Napping {
    pub(super) fn new(level: Level) -> Self {
        Self {
            level,
            moved_at: None,
            nap_ms: NAP_MIN_MS,
        }
    }

    /// Something has come, or was given out.
    pub(super) fn moved(&mut self, now: Instant) {
        self.moved_at = Some(now);
        self.nap_ms = NAP_MIN_MS;
    }

    /// How long to sleep now. It was slept in vain if nothing has moved when this
    /// is asked again.
    pub(super) fn next_ms(&mut self, now: Instant) -> u32 {
        if self.level == Level::Placed {
            let nap_ms = self.nap_ms;
            self.nap_ms = (nap_ms * 2).min(NAP_MAX_MS);
            return nap_ms;
        }
        let is_recent = |at| now.saturating_duration_since(at) < LOOKS;
        if self.moved_at.is_some_and(is_recent) {
            return 0;
        }
        self.moved_at = None;
        NAP_MIN_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER_MS: u32 = 1000;

    /// Time that a server is awake in a second in which nothing comes.
    fn idle_wakes(napping: &mut Napping) -> u32 {
        let begin = Instant::now();
        let (mut wakes, mut slept_ms) = (0, 0);
        while slept_ms < NEVER_MS {
            let now = begin + Duration::from_millis(slept_ms.into());
            let nap_ms = napping.next_ms(now);
            assert!(nap_ms > 0, "looks for ever");
            slept_ms += nap_ms;
            wakes += 1;
        }
        wakes
    }

    #[test]
    fn an_idle_server_sleeps_longer_and_longer_where_nobody_waits_for_it() {
        assert!(idle_wakes(&mut Napping::new(Level::Placed)) <= 260);
        assert!(idle_wakes(&mut Napping::new(Level::Durable)) <= NEVER_MS);
    }

    #[test]
    fn what_has_come_makes_it_look_again_soon() {
        let now = Instant::now();
        let mut napping = Napping::new(Level::Placed);
        idle_wakes(&mut napping);
        napping.moved(now);
        assert_eq!(napping.next_ms(now), NAP_MIN_MS, "a ring may be filling");
    }

    #[test]
    fn where_clients_wait_for_the_disk_it_looks_all_the_time_for_a_while() {
        let now = Instant::now();
        let mut napping = Napping::new(Level::Durable);
        assert_eq!(napping.next_ms(now), NAP_MIN_MS, "nothing has come yet");
        napping.moved(now);
        assert_eq!(napping.next_ms(now), 0);
        assert_eq!(napping.next_ms(now + LOOKS / 2), 0);
        assert_eq!(napping.next_ms(now + LOOKS), NAP_MIN_MS);
        assert_eq!(napping.next_ms(now + LOOKS), NAP_MIN_MS);
    }
}
