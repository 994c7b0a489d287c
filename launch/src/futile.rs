//! Ranks that are killed again before they have caught up: the delay of the next start,
//! which of these deaths are reported, and the text. Pure.

use refrain_job::config::RecoveryConfig;
use refrain_job::control::message::ReplayFigures;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// The first wait; each further death in a row doubles it.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Deaths in a row without a delay: one may be chance.
const FREE: u32 = 1;

/// How far a life came that did not catch up.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// What the life reported last.
    pub replay: Option<ReplayFigures>,
    /// For how long it lived.
    pub lived: Duration,
    /// The rank has a stable checkpoint.
    pub has_checkpoint: bool,
}

/// The delay of the next start after `deaths` deaths in a row.
pub fn wait(deaths: u32) -> Duration {
    match deaths.checked_sub(FREE + 1) {
        None => Duration::ZERO,
        Some(more) => WAIT_MIN.saturating_mul(1 << more.min(16)).min(WAIT_MAX),
    }
}

/// Whether a report is due after `deaths` deaths in a row: the 2nd, 4th, 8th …
pub fn is_reported(deaths: u32) -> bool {
    deaths > FREE && deaths.is_power_of_two()
}

/// The text of such a report, after "rank R".
pub fn describe(deaths: u32, stage: Stage, config: &RecoveryConfig) -> String {
    format!(
        "was killed {deaths} times in a row during replay; {stage}; {}",
        advice(stage.has_checkpoint, config)
    )
}

fn advice(has_checkpoint: bool, config: &RecoveryConfig) -> &'static str {
    match (&config.checkpoint_dir, has_checkpoint) {
        (_, true) => "more frequent checkpoints would shorten that (--checkpoint-every)",
        (Some(_), false) => {
            "a checkpoint would shorten that, and it has none yet: its program has to take them (--checkpoint-policy sets the times)"
        }
        (None, false) => {
            "checkpoints would shorten that, if its program takes them: --checkpoint-dir with --checkpoint-policy"
        }
    }
}

impl Display for Stage {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let lived = self.lived.as_secs_f64();
        let Some(replay) = self.replay else {
            return write!(
                to,
                "its last life ended after {lived:.1} s, before it had reported its progress"
            );
        };
        let replayed = replay.clock.saturating_sub(replay.begin);
        write!(
            to,
            "in {lived:.1} s its last life replayed {replayed} operations"
        )?;
        let of = replay.events_until.saturating_sub(replay.begin);
        match of > replayed {
            true => write!(to, " of at least {of}"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_are_bounded() {
        assert_eq!([0, 1].map(wait), [Duration::ZERO; 2]);
        let tenths = [2, 3, 4, 5].map(|deaths| wait(deaths).as_millis() / 100);
        assert_eq!(tenths, [1, 2, 4, 8]);
        assert_eq!([20, 1000, u32::MAX].map(wait), [WAIT_MAX; 3]);
    }

    #[test]
    fn deaths_are_reported_early_and_then_seldom() {
        let reported: Vec<u32> = (0..100).filter(|deaths| is_reported(*deaths)).collect();
        assert_eq!(reported, [2, 4, 8, 16, 32, 64]);
    }

    #[test]
    fn a_report_has_the_progress_and_an_advice() {
        let mut stage = Stage {
            replay: Some(ReplayFigures {
                begin: 1000,
                clock: 1200,
                events_until: 6000,
            }),
            lived: Duration::from_millis(700),
            has_checkpoint: false,
        };
        let config = RecoveryConfig::default();
        assert_eq!(
            describe(3, stage, &config),
            "was killed 3 times in a row during replay; in 0.7 s its last life \
             replayed 200 operations of at least 5000; checkpoints would shorten that, if \
             its program takes them: --checkpoint-dir with --checkpoint-policy"
        );
        stage.has_checkpoint = true;
        assert!(describe(3, stage, &config).contains("--checkpoint-every"));
        stage.replay = None;
        assert!(describe(3, stage, &config).contains("before it had reported"));
    }
}
