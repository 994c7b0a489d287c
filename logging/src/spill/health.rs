//! Whether writing to the disk is worth a try.

use crate::store::StoreError;
use core::time::Duration;

/// What people should know.
#[derive(Debug)]
pub enum Report {
    /// A write failed; it will be tried again later. The log continues in memory
    /// meanwhile.
    Paused {
        /// What failed.
        error: StoreError,
    },
    /// It works again.
    Resumed,
    /// Writing has failed too often; nothing is spilled any more.
    Stopped {
        /// What failed last.
        error: StoreError,
    },
    /// A file that is not needed could not be removed. It still counts in the budget, as
    /// it takes room; writing continues.
    Undeleted {
        /// What failed.
        error: StoreError,
    },
}

/// Why no chunk is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The limit of writes under way is reached.
    Busy,
    /// The budget is in use; only a horizon frees it.
    Full,
    /// The disk refused; it is tried again later.
    Paused,
    /// The disk has failed for good.
    Stopped,
}

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Failures in a row, other than for lack of space, after which it is given up.
const FAILURES_MAX: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Health {
    state: HealthState,
    /// In a row, without lack of space.
    failures: u32,
    pause: Duration,
}

#[derive(Debug, Default, PartialEq)]
enum HealthState {
    #[default]
    Good,
    /// Not before then.
    Paused(Duration),
    /// The pause is over: the next write shows.
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

    /// A write has succeeded; whether that is news.
    pub fn succeeded(&mut self) -> bool {
        // One that was begun before the failure says nothing about now.
        if self.state != HealthState::Trying {
            return false;
        }
        *self = Self::default();
        true
    }

    /// A write has failed; the report, if it is news.
    pub fn failed(&mut self, error: StoreError, now: Duration) -> Option<Report> {
        match self.state {
            HealthState::Stopped => return None,
            // Others that were under way fail for the same reason.
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
