//! Decides whether to try writing to the disk.

use crate::store::StoreError;
use core::time::Duration;

/// A report for people.
#[derive(Debug)]
pub enum Report {
    /// A write failed; it will be tried again later. The log continues in memory
    /// meanwhile.
    Paused {
        /// The failure.
        error: StoreError,
    },
    /// Writing works again.
    Resumed,
    /// Writing has failed too often; nothing is spilled any more.
    Stopped {
        /// The last failure.
        error: StoreError,
    },
    /// An unneeded file could not be removed. It still counts in the budget, because
    /// it takes room; writing continues.
    Undeleted {
        /// The failure.
        error: StoreError,
    },
}

/// Why a chunk is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The limit of writes under way is reached.
    Busy,
    /// The budget is used up; only a horizon frees room.
    Full,
    /// A write failed; writing is tried again later.
    Paused,
    /// The disk has failed for good.
    Stopped,
}

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Number of consecutive failures, other than for lack of space, after which writing stops.
const FAILURES_MAX: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Health {
    state: HealthState,
    /// Number of consecutive failures, other than for lack of space.
    failures: u32,
    pause: Duration,
}

#[derive(Debug, Default, PartialEq)]
enum HealthState {
    #[default]
    Good,
    /// Writing is paused until this time.
    Paused(Duration),
    /// The pause is over: the next write decides.
    Trying,
    Stopped,
}

impl Health {
    pub fn takes(&mut self, now: Duration) -> Result<(), Refused> {
        match self.state {
            HealthState::Good | HealthState::Trying => Ok(()),
            HealthState::Paused(until) if now >= until => {
                self.state = HealthState::Trying;
                Ok(())
            }
            HealthState::Paused(_) => Err(Refused::Paused),
            HealthState::Stopped => Err(Refused::Stopped),
        }
    }

    /// Handles a successful write; returns whether writing has just resumed.
    pub fn succeeded(&mut self) -> bool {
        // A write that began before the failure does not show the current state.
        if self.state != HealthState::Trying {
            return false;
        }
        *self = Self::default();
        true
    }

    /// Handles a failed write; returns a report if the state changes.
    pub fn failed(&mut self, error: StoreError, now: Duration) -> Option<Report> {
        match self.state {
            HealthState::Stopped => return None,
            // Other writes that were under way fail for the same reason.
            HealthState::Paused(_) => return None,
            HealthState::Good | HealthState::Trying => {}
        }
        if !error.is_lack_of_space() {
            self.failures += 1;
        }
        if self.failures >= FAILURES_MAX {
            self.state = HealthState::Stopped;
            return Some(Report::Stopped { error });
        }
        let is_news = self.state == HealthState::Good;
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.state = HealthState::Paused(now + self.pause);
        is_news.then_some(Report::Paused { error })
    }
}
