//! What a process does to the world, one effect after the other, and its death
//! before or after any of them.
//!
//! Each effect of a process goes through its [`CrashPoint`]. When the process
//! dies in the middle of a call of the real code, that call runs on to its end,
//! but nothing that it does has an effect any more: it is as if the process had
//! stopped there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether one run of a process lives, and how many effects the process had. Clones are the
/// same.
#[derive(Clone, Debug, Default)]
pub struct CrashPoint {
    /// Of all runs. Behind a lock since disks must be able to have it, not for threads.
    effects: Arc<Mutex<Effects>>,
    is_dead: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Effects {
    count: u64,
    /// Deaths to come: before (`true`) or after the effect of this number.
    deaths: Vec<(u64, bool)>,
}

impl CrashPoint {
    /// A process that dies at these effects, counted from 0 over all its runs.
    pub fn new(deaths: Vec<(u64, bool)>) -> Self {
        let point = Self::default();
        point.state().deaths = deaths;
        point
    }

    fn state(&self) -> MutexGuard<'_, Effects> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has an effect, unless the process is dead.
    pub fn act<R>(&self, effect: impl FnOnce() -> R) -> Option<R> {
        if self.meets(true) {
            return None;
        }
        let result = effect();
        self.meets(false);
        self.state().count += 1;
        Some(result)
    }

    /// Whether it is dead, now that this moment has come.
    fn meets(&self, before: bool) -> bool {
        if !self.is_dead() {
            let state = &mut *self.state();
            let now = (state.count, before);
            let deaths = state.deaths.len();
            state.deaths.retain(|death| *death != now);
            if state.deaths.len() < deaths {
                self.kill();
            }
        }
        self.is_dead()
    }

    /// Kills it.
    pub fn kill(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
    }

    /// The next run of a process of which there is one at a time.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Self {
            effects: Arc::clone(&self.effects),
            is_dead: Arc::default(),
        }
    }

    /// The next life of a process, which dies of what is still to come. This one
    /// may continue; only `kill` ends it.
    #[must_use]
    pub fn successor(&self) -> Self {
        let state = &mut *self.state();
        let successor = Self::new(core::mem::take(&mut state.deaths));
        successor.state().count = state.count;
        successor
    }

    /// Whether it is dead.
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    /// Whether both are of one run.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.is_dead, &other.is_dead)
    }

    /// Effects so far.
    pub fn effects(&self) -> u64 {
        self.state().count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_dies_before_or_after_an_effect() {
        for (before, expected) in [(true, 2), (false, 3)] {
            let mut point = CrashPoint::new(vec![(2, before)]);
            let mut done = 0;
            for _ in 0..5 {
                point.act(|| done += 1);
            }
            assert_eq!((done, point.is_dead()), (expected, true));
            // The next life does not die of the same.
            point = point.restarted();
            point.act(|| done += 1);
            assert_eq!((done, point.is_dead()), (expected + 1, false));
        }
    }
}
