//! Which ranks are restarted, how often, and after which delay. Pure.
//!
//! A job must not run for ever, and must not mistake a fault of the program for one of the
//! machine. The restarts of each rank are limited; a death during replay counts twice, and a
//! second crash, which the program is likely to repeat, ends the job.

use super::verdict::End;
use refrain_job::JobError;
use refrain_job::config::{JobConfig, RecoveryConfig};
use refrain_job::control::message::ReplayFigures;
use refrain_logging::Member;
use refrain_logging::held::Tolerance;
use refrain_ring::Rank;
use signal_hook::consts::{
    SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPIPE, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ,
};
use std::fmt;
use std::fmt::{Display, Formatter};
use std::time::Duration;

/// Signals that a fault of the program itself causes.
const CRASHES: [i32; 10] = [
    SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGPIPE, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ,
];

/// Default maximum of restarts of one rank, for protocols that can recover.
pub const MAX_RESTARTS_DEFAULT: u32 = 8;

/// Whether a rank of this protocol can be restarted: messages to it are kept, and its events
/// are stable.
pub fn can_recover(protocol: &str) -> bool {
    let member = protocol.parse::<Member>();
    member.is_ok_and(|member| member.keeps_payload() && member.logs_events())
}

/// Refuses restarts with protocols that cannot recover.
///
/// # Errors
/// [`JobError::Config`], with the protocols that can.
pub fn check(config: &JobConfig) -> Result<(), JobError> {
    let restarts = config.recovery.max_restarts;
    if restarts == 0 || can_recover(&config.protocol) {
        return Ok(());
    }
    let able = Member::names().into_iter().filter(|name| can_recover(name));
    Err(JobError::Config(format!(
        "--max-restarts {restarts}: --protocol {} cannot recover a rank; choose {}",
        config.protocol,
        able.collect::<Vec<_>>().join(" or ")
    )))
}

/// Refuses correlated sets where a set could not go back as a whole. SET-1
///
/// # Errors
/// [`JobError::Config`], with what to choose instead.
pub fn check_sets(config: &JobConfig, set_of_rank: &[u32]) -> Result<(), JobError> {
    let size = |set: &u32| set_of_rank.iter().filter(|it| *it == set).count();
    let Some(largest) = set_of_rank.iter().map(size).max() else {
        return Ok(());
    };
    let why = if config.recovery.max_restarts == 0 {
        "has no effect without restarts: choose a logging --protocol and --max-restarts above 0"
            .to_owned()
    } else if let Some(failures) = config.collectives.whole
        && (failures as usize) < largest
    {
        format!(
            "results of collectives survive {failures} failures at a time, and a set of {largest} ranks goes back as a whole: choose --collective-failures {largest}"
        )
    } else {
        return Ok(());
    };
    Err(JobError::Config(format!("--sets: {why}")))
}

/// The deaths at once that the job survives. `None`: any number, or none.
///
/// # Errors
/// [`JobError::Config`]: too few other ranks, or sets, can hold the events of a rank.
pub fn tolerance(config: &JobConfig, ranks: u32) -> Result<Option<Tolerance>, JobError> {
    let member = config.protocol.parse::<Member>();
    let failures = config.recovery.failures_at_once;
    if !member.is_ok_and(Member::holds_events_at_ranks) {
        return match failures {
            None => Ok(None),
            Some(_) => Err(JobError::Config(format!(
                "--causal-f has no effect with --protocol {}: choose ticket or causal",
                config.protocol
            ))),
        };
    }
    let failures = failures.unwrap_or(1) as usize;
    if !(1..=Tolerance::FAILURES_MAX).contains(&failures) {
        return Err(JobError::Config(format!(
            "--causal-f {failures} is not from 1 to {}",
            Tolerance::FAILURES_MAX
        )));
    }
    let tolerance = config.recovery.tolerance();
    let domains = tolerance.domains((0..ranks).map(Rank));
    if failures < domains {
        return Ok(Some(tolerance));
    }
    let what = if tolerance.has_sets() { "set" } else { "rank" };
    let counted = |count: usize, of: &str| match count {
        1 => format!("1 {of}{what}"),
        _ => format!("{count} {of}{what}s"),
    };
    let advice = match domains {
        1 => "choose pessimist".to_owned(),
        _ => format!("choose --causal-f {} or pessimist", domains - 1),
    };
    Err(JobError::Config(format!(
        "--protocol {}: the events of a rank are held in {}, and this job has {}: {advice}",
        config.protocol,
        counted(failures, "other "),
        counted(domains, ""),
    )))
}

/// Decision after a rank's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartDecision {
    /// The rank is restarted.
    Again,
    /// All ranks had left the job, and this one is not restarted: the job continues, and reports
    /// the reason at its end.
    Noted(String),
    /// The end is judged; with the reason why the rank is not restarted, if ranks may be
    /// restarted.
    Judged(Option<String>),
}

/// Position of the last fence of the job for a rank that has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Not reached yet: other ranks need this one.
    Ahead,
    /// All ranks have passed it, and the messages to this rank can be read.
    Behind,
    /// The rank has left the job, and a later life cannot replay, for this reason.
    Without(&'static str),
}

/// One rank's restarts.
#[derive(Clone, Debug)]
pub struct Allowance {
    max: u32,
    spent: u32,
    crashes: u32,
}

impl Allowance {
    /// `max` restarts are allowed.
    pub fn new(max: u32) -> Self {
        Self {
            max,
            spent: 0,
            crashes: 0,
        }
    }

    /// Decides what follows from this end of a life. `had_caught_up`: the life was the first, or
    /// had reached the point where the earlier life died. `protected`: or why no rank of the job can
    /// be restarted.
    pub fn decide(
        &self,
        end: End,
        departure: Departure,
        had_caught_up: bool,
        protected: Result<(), String>,
    ) -> RestartDecision {
        let End::Killed(signal) = end else {
            return RestartDecision::Judged(None);
        };
        if self.max == 0 {
            return RestartDecision::Judged(None);
        }
        let why = match (protected, departure) {
            (Err(why), _) => Some(why),
            (_, Departure::Without(what)) => Some(what.to_owned()),
            _ => self.why_not(signal, had_caught_up),
        };
        let Some(why) = why else {
            return RestartDecision::Again;
        };
        let why = format!("it is not restarted: {why}");
        match departure {
            Departure::Ahead => RestartDecision::Judged(Some(why)),
            Departure::Behind | Departure::Without(_) => RestartDecision::Noted(why),
        }
    }

    fn why_not(&self, signal: i32, had_caught_up: bool) -> Option<String> {
        if is_crash(signal) && self.crashes > 0 {
            return Some("this is its second crash".into());
        }
        (self.spent + cost(had_caught_up) > self.max).then(|| {
            format!(
                "the limit of --max-restarts {} is reached (a death during replay counts twice)",
                self.max
            )
        })
    }

    /// Counts the restart after this end.
    pub fn spend(&mut self, end: End, had_caught_up: bool) {
        self.spent += cost(had_caught_up);
        self.crashes += u32::from(matches!(end, End::Killed(signal) if is_crash(signal)));
    }
}

fn is_crash(signal: i32) -> bool {
    CRASHES.contains(&signal)
}

fn cost(had_caught_up: bool) -> u32 {
    if had_caught_up { 1 } else { 2 }
}

/// How a rank behind a wrapper ended: shells exit with 128 + signal when their child was killed.
pub fn behind_wrapper(end: End) -> End {
    match end {
        End::Exited(status @ 129..=192) => End::Killed(status - 128),
        other => other,
    }
}

/// Delay after the first death that is delayed; each further consecutive death doubles it.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// Maximum delay.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Number of consecutive deaths without a delay: a single death may be chance.
const FREE: u32 = 1;

/// Progress of a life that did not catch up.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// The last progress that the life reported.
    pub replay: Option<ReplayFigures>,
    /// How long it lived.
    pub lived: Duration,
    /// The rank has a stable checkpoint.
    pub has_checkpoint: bool,
}

/// The delay of the next start after `deaths` consecutive deaths.
pub fn delay(deaths: u32) -> Duration {
    match deaths.checked_sub(FREE + 1) {
        None => Duration::ZERO,
        Some(more) => WAIT_MIN.saturating_mul(1 << more.min(16)).min(WAIT_MAX),
    }
}

/// Whether a report is due after `deaths` consecutive deaths: the 2nd, 4th, 8th …
pub fn is_reported(deaths: u32) -> bool {
    deaths > FREE && deaths.is_power_of_two()
}

/// The text of such a report, after "rank R".
pub fn describe_repeated_deaths(deaths: u32, stage: Stage, config: &RecoveryConfig) -> String {
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
                "its last incarnation ended after {lived:.1} s, before it had reported its progress"
            );
        };
        let replayed = replay.clock.saturating_sub(replay.begin);
        write!(
            to,
            "in {lived:.1} s its last incarnation replayed {replayed} operations"
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
    use signal_hook::consts::{SIGKILL, SIGTERM};

    const KILLED: End = End::Killed(SIGKILL);

    /// Number of restarts if each life ends like this.
    fn lives_after(max: u32, end: End, had_caught_up: bool) -> u32 {
        let mut allowance = Allowance::new(max);
        for life in 0.. {
            let caught_up = life == 0 || had_caught_up;
            if allowance.decide(end, Departure::Ahead, caught_up, Ok(())) != RestartDecision::Again
            {
                return life;
            }
            allowance.spend(end, caught_up);
        }
        unreachable!("restarts have an end");
    }

    // REC-6
    #[test]
    fn restarts_are_counted_and_those_without_progress_twice() {
        assert_eq!(lives_after(8, KILLED, true), 8);
        assert_eq!(lives_after(8, KILLED, false), 4);
        assert_eq!(lives_after(1, KILLED, false), 1);
        assert_eq!(lives_after(8, End::Killed(SIGTERM), true), 8);
        for signal in CRASHES {
            assert_eq!(lives_after(8, End::Killed(signal), true), 1, "{signal}");
        }
    }

    #[test]
    fn only_kills_are_made_good_also_behind_the_last_fence() {
        let sequel = |max, end, departure| Allowance::new(max).decide(end, departure, true, Ok(()));
        for departure in [Departure::Ahead, Departure::Behind] {
            assert_eq!(sequel(1, KILLED, departure), RestartDecision::Again);
            assert_eq!(sequel(0, KILLED, departure), RestartDecision::Judged(None));
            for status in [0, 7] {
                let judged = sequel(1, End::Exited(status), departure);
                assert_eq!(judged, RestartDecision::Judged(None));
            }
        }
    }

    /// Other ranks print their results: the job continues.
    #[test]
    fn behind_the_last_fence_the_death_of_a_rank_does_not_end_the_job() {
        let allowance = Allowance::new(1);
        let noted = |sequel| match sequel {
            RestartDecision::Noted(why) => why,
            other => panic!("{other:?}"),
        };
        let why = noted(allowance.decide(KILLED, Departure::Without("no log"), true, Ok(())));
        assert_eq!(why, "it is not restarted: no log");
        let why = noted(allowance.decide(KILLED, Departure::Behind, false, Ok(())));
        assert!(why.contains("--max-restarts 1"), "{why}");
    }

    #[test]
    fn a_limit_that_is_reached_is_explained() {
        let mut allowance = Allowance::new(1);
        allowance.spend(KILLED, true);
        let RestartDecision::Judged(Some(why)) =
            allowance.decide(KILLED, Departure::Ahead, true, Ok(()))
        else {
            panic!("one restart is allowed");
        };
        assert!(why.contains("--max-restarts 1"), "{why}");
    }

    #[test]
    fn protocols_that_keep_nothing_are_refused_with_those_that_do() {
        let mut config = JobConfig::default();
        assert!(check(&config).is_ok());
        config.recovery.max_restarts = 1;
        let message = check(&config).unwrap_err().to_string();
        assert!(message.contains("--protocol none"), "{message}");
        assert!(
            message.contains("choose pessimist or pessimist-classic"),
            "{message}"
        );
        config.protocol = "pessimist".into();
        assert!(check(&config).is_ok());
    }

    #[test]
    fn a_shell_tells_of_a_signal_by_its_status() {
        assert_eq!(behind_wrapper(End::Exited(137)), KILLED);
        for end in [End::Exited(1), End::Exited(128), End::Exited(255), KILLED] {
            assert_eq!(behind_wrapper(end), end);
        }
    }
}

#[cfg(test)]
mod futile_tests {
    use super::*;

    #[test]
    fn waits_grow_and_are_bounded() {
        assert_eq!([0, 1].map(delay), [Duration::ZERO; 2]);
        let tenths = [2, 3, 4, 5].map(|deaths| delay(deaths).as_millis() / 100);
        assert_eq!(tenths, [1, 2, 4, 8]);
        assert_eq!([20, 1000, u32::MAX].map(delay), [WAIT_MAX; 3]);
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
            describe_repeated_deaths(3, stage, &config),
            "was killed 3 times in a row during replay; in 0.7 s its last incarnation \
             replayed 200 operations of at least 5000; checkpoints would shorten that, if \
             its program takes them: --checkpoint-dir with --checkpoint-policy"
        );
        stage.has_checkpoint = true;
        assert!(describe_repeated_deaths(3, stage, &config).contains("--checkpoint-every"));
        stage.replay = None;
        assert!(describe_repeated_deaths(3, stage, &config).contains("before it had reported"));
    }
}
