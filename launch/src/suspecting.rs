//! Ranks that are stopped for too long count as lost. Pure.
//!
//! A rank that computes says nothing for as long as it likes, so silence is no
//! sign of death. What can be seen from outside is that a process is *stopped*:
//! by a signal that nobody takes back, or by a debugger. Such a rank holds all
//! others up; it is killed, and only then replaced.

use std::time::{Duration, Instant};

/// Between two looks, at least and at most.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(250);

/// How long each rank has been stopped.
#[derive(Debug)]
pub struct Suspicion {
    after: Duration,
    /// By rank: which life, since when.
    stopped: Vec<Option<(u32, Instant)>>,
    next_look: Instant,
}

impl Suspicion {
    /// Ranks that are stopped for longer than `after` are suspected.
    pub fn new(ranks: usize, after: Duration, now: Instant) -> Self {
        Self {
            after,
            stopped: vec![None; ranks],
            next_look: now,
        }
    }

    /// When to look again.
    pub fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Whether it is time to look; the next one comes later.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_look;
        if is_due {
            self.next_look = now + (self.after / 4).clamp(LOOK_MIN, LOOK_MAX);
        }
        is_due
    }

    /// What was seen of a rank. `true`: it counts as lost.
    pub fn see(&mut self, rank: usize, incarnation: u32, is_stopped: bool, now: Instant) -> bool {
        let seen = &mut self.stopped[rank];
        if !is_stopped {
            *seen = None;
            return false;
        }
        let (_, since) = *seen
            .filter(|(life, _)| *life == incarnation)
            .get_or_insert((incarnation, now));
        *seen = Some((incarnation, since));
        now - since >= self.after
    }

    /// The whole job was stopped: nobody is to be blamed.
    pub fn forgive(&mut self) {
        self.stopped.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_life_that_is_stopped_for_the_whole_time_is_suspected() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut suspicion = Suspicion::new(2, Duration::from_secs(10), begin);
        assert!(!suspicion.see(1, 0, true, at(0)));
        assert!(!suspicion.see(1, 0, true, at(9)));
        assert!(suspicion.see(1, 0, true, at(10)));
        assert!(!suspicion.see(0, 0, true, at(10)), "each rank by itself");
        assert!(
            !suspicion.see(1, 1, true, at(11)),
            "the next life has its own time"
        );
        assert!(!suspicion.see(1, 1, false, at(15)));
        assert!(!suspicion.see(1, 1, true, at(22)));
        suspicion.forgive();
        assert!(!suspicion.see(1, 1, true, at(40)));
        assert!(suspicion.see(1, 1, true, at(50)));
    }

    #[test]
    fn looks_are_not_more_often_than_of_use() {
        let begin = Instant::now();
        let mut suspicion = Suspicion::new(1, Duration::from_millis(200), begin);
        assert!(suspicion.is_due(begin));
        assert_eq!(suspicion.next_look(), begin + Duration::from_millis(50));
        assert!(!suspicion.is_due(begin + Duration::from_millis(49)));
        assert!(suspicion.is_due(begin + Duration::from_millis(50)));
    }
}
