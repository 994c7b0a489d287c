//! The effects of a process on the world in their order, and its death before or after any of them.
//!
//! Each effect of a process goes through its [`CrashPoint`]. When the process dies in the middle of
//! a call of the real code, the call runs to its end, but nothing that it does has an effect: the
//! world sees a process that stopped at that point.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether one run of a process is alive, and how many effects the process has had. Clones share
/// this state.
#[derive(Clone, Debug, Default)]
pub struct CrashPoint {
    /// Shared by all runs of the process. Locked because disks need `Send`, not for threads.
    effects: Arc<Mutex<Effects>>,
    is_dead: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Effects {
    count: u64,
    /// Planned deaths: before (`true`) or after the effect with this number.
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

    /// Runs `effect`, unless the process is dead.
    pub fn act<R>(&self, effect: impl FnOnce() -> R) -> Option<R> {
        if self.meets(true) {
            return None;
        }
        let result = effect();
        self.meets(false);
        self.state().count += 1;
        Some(result)
    }

    /// Whether the process is dead, after any death planned for this moment.
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

    /// Kills the process.
    pub fn kill(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
    }

    /// The next run of a process that has one run at a time.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Self {
            effects: Arc::clone(&self.effects),
            is_dead: Arc::default(),
        }
    }

    /// The next life of a process; it takes over the deaths that remain. This life may continue;
    /// only `kill` ends it.
    #[must_use]
    pub fn successor(&self) -> Self {
        let state = &mut *self.state();
        let successor = Self::new(core::mem::take(&mut state.deaths));
        successor.state().count = state.count;
        successor
    }

    /// Whether the process is dead.
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    /// Whether both belong to one run.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.is_dead, &other.is_dead)
    }

    /// Number of effects so far.
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
            // The next life does not die at the same effect.
            point = point.restarted();
            point.act(|| done += 1);
            assert_eq!((done, point.is_dead()), (expected + 1, false));
        }
    }
}
