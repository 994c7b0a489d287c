//! What a process does to the world, one effect after the other, and its death
//! before or after any of them.
//!
//! Each effect of a process goes through its [`Mortal`]. When the process
//! dies in the middle of a call of the real code, that call runs on to its end,
//! but nothing that it does has an effect any more: it is as if the process had
//! stopped there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether a process lives, and how many effects it had. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Mortal {
    /// Behind a lock since disks must be able to have it, not for threads.
    state: Arc<Mutex<Vitals>>,
}

#[derive(Debug, Default)]
struct Vitals {
    is_dead: bool,
    effects: u64,
    /// Deaths to come: before (`true`) or after the effect of this number.
    deaths: Vec<(u64, bool)>,
}

impl Mortal {
    /// A process that dies at these effects, counted from 0 over all its lives.
    pub fn new(deaths: Vec<(u64, bool)>) -> Self {
        let mortal = Self::default();
        mortal.state().deaths = deaths;
        mortal
    }

    fn state(&self) -> MutexGuard<'_, Vitals> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has an effect, unless the process is dead.
    pub fn act<R>(&self, effect: impl FnOnce() -> R) -> Option<R> {
        if self.meets(true) {
            return None;
        }
        let result = effect();
        self.meets(false);
        self.state().effects += 1;
        Some(result)
    }

    /// Whether it is dead, now that this moment has come.
    fn meets(&self, before: bool) -> bool {
        let state = &mut *self.state();
        if !state.is_dead {
            let now = (state.effects, before);
            let deaths = state.deaths.len();
            state.deaths.retain(|death| *death != now);
            state.is_dead = state.deaths.len() < deaths;
        }
        state.is_dead
    }

    /// It dies now.
    pub fn kill(&self) {
        self.state().is_dead = true;
    }

    /// It is started again, as it is: a process of which there is one at a time.
    pub fn revive(&self) {
        self.state().is_dead = false;
    }

    /// The next life of a process, which dies of what is still to come. This one
    /// may go on; it dies by hand only.
    #[must_use]
    pub fn successor(&self) -> Self {
        let state = &mut *self.state();
        let successor = Self::new(core::mem::take(&mut state.deaths));
        successor.state().effects = state.effects;
        successor
    }

    /// Whether it is dead.
    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    /// Effects so far.
    pub fn effects(&self) -> u64 {
        self.state().effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_dies_before_or_after_an_effect() {
        for (before, expected) in [(true, 2), (false, 3)] {
            let mortal = Mortal::new(vec![(2, before)]);
            let mut done = 0;
            for _ in 0..5 {
                mortal.act(|| done += 1);
            }
            assert_eq!((done, mortal.is_dead()), (expected, true));
            // The next life does not die of the same.
            mortal.revive();
            mortal.act(|| done += 1);
            assert_eq!((done, mortal.is_dead()), (expected + 1, false));
        }
    }
}
