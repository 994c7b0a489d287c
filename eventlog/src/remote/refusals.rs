//! Time for which repeated writes have been refused. Pure: time is an
//! argument.

use core::time::Duration;

/// Limit of the time counted between two attempts: in a longer gap the process was busy
/// elsewhere, and did not poll the device.
const GAP_MAX: Duration = Duration::from_millis(100);

/// Accumulated time in which writes were attempted and refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    tried_at: Option<Duration>,
    lasted: Duration,
}

impl Refusals {
    /// Counts a refused write. Returns the accumulated time of refusals.
    pub(super) fn refused(&mut self, now: Duration) -> Duration {
        if let Some(before) = self.tried_at.replace(now) {
            self.lasted += now.saturating_sub(before).min(GAP_MAX);
        }
        self.lasted
    }

    /// Resets the time: a write was taken.
    pub(super) fn taken(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn tries_that_follow_each_other_count_in_full() {
        let mut refusals = Refusals::default();
        for now in 0..=5000 {
            assert_eq!(refusals.refused(now * MS), now * MS);
        }
        refusals.taken();
        assert_eq!(refusals.refused(6000 * MS), Duration::ZERO);
        assert_eq!(refusals.refused(6007 * MS), 7 * MS);
    }

    /// A rank whose write is refused once, and that then computes, has not waited.
    #[test]
    fn time_in_which_nothing_was_tried_hardly_counts() {
        let mut refusals = Refusals::default();
        refusals.refused(Duration::ZERO);
        let hour = Duration::from_secs(3600);
        assert_eq!(refusals.refused(hour), GAP_MAX);
        assert_eq!(refusals.refused(hour + MS), GAP_MAX + MS);
    }
}
