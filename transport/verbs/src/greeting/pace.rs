//! Decides when a greeting is repeated and when a queue pair is replaced.

use core::time::Duration;

/// The first gap between two greetings; each further gap is twice as long.
pub const REPEAT_MIN: Duration = Duration::from_millis(5);
/// The longest gap between two greetings.
pub const REPEAT_MAX: Duration = Duration::from_millis(250);
/// A queue pair that breaks this time after the previous one, or later, is replaced at once. One
/// that breaks sooner is replaced after a gap, which doubles like that of greetings.
pub const CALM: Duration = Duration::from_secs(1);
/// A peer that sends nothing for this time, while a greeting is expected, is reported.
pub const SILENT_AFTER: Duration = Duration::from_secs(1);

/// The only timer of a connection.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    next_at: Option<Duration>,
    /// The last gap between two equal greetings.
    gap: Duration,
    broke_at: Option<Duration>,
    /// The last gap before a replacement.
    broken_gap: Duration,
    /// The time when the last greeting arrived, or when one began to be expected.
    heard_at: Duration,
    silence_told: bool,
}

impl Pace {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            next_at: Some(now),
            gap: Duration::ZERO,
            broke_at: None,
            broken_gap: Duration::ZERO,
            heard_at: now,
            silence_told: false,
        }
    }

    pub(super) fn next_at(&self) -> Option<Duration> {
        self.next_at
    }

    /// Starts the timer for a new greeting, which is repeated after the shortest gap.
    pub(super) fn begin_anew(&mut self, now: Duration) {
        self.gap = REPEAT_MIN;
        self.next_at = Some(now + self.gap);
    }

    /// Restarts the timer after a repetition: the gap doubles.
    pub(super) fn repeated(&mut self, now: Duration) {
        self.gap = doubled(self.gap);
        self.next_at = Some(now + self.gap);
    }

    /// Restarts the timer after an answer: the gap stays.
    pub(super) fn answered(&mut self, now: Duration) {
        self.next_at = Some(now + self.gap.max(REPEAT_MIN));
    }

    /// Stops the timer: no greeting is needed any more.
    pub(super) fn rest(&mut self) {
        self.next_at = None;
    }

    /// Sets the timer for the replacement of a queue pair that broke now.
    pub(super) fn broke(&mut self, now: Duration) {
        let is_calm = self.broke_at.is_none_or(|at| now >= at + CALM);
        self.broken_gap = match is_calm {
            true => Duration::ZERO,
            false => doubled(self.broken_gap),
        };
        self.broke_at = Some(now);
        self.gap = Duration::ZERO;
        self.next_at = Some(now + self.broken_gap);
        self.expect(now);
    }

    /// Expects a greeting of the peer from now on.
    pub(super) fn expect(&mut self, now: Duration) {
        self.heard_at = now;
        self.silence_told = false;
    }

    /// The time when the last greeting arrived, or when one began to be expected.
    pub(super) fn heard_at(&self) -> Duration {
        self.heard_at
    }

    /// The beginning of the peer's silence; returned once for each silence.
    pub(super) fn silent_since(&mut self, now: Duration) -> Option<Duration> {
        let is_silent = !self.silence_told && now >= self.heard_at + SILENT_AFTER;
        self.silence_told |= is_silent;
        is_silent.then_some(self.heard_at)
    }
}

fn doubled(gap: Duration) -> Duration {
    (gap * 2).clamp(REPEAT_MIN, REPEAT_MAX)
}
