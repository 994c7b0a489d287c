//! Which ranks are started again, and how often. Pure.
//!
//! A job must not go on for ever, and must not take a fault of the program for
//! one of the machine. So a rank's restarts are counted, and a life that dies
//! before it is where the one before was counts twice; a crash, which the next
//! life is likely to repeat, is forgiven once.

use super::verdict::{End, signal_name};
use refrain_job::JobError;
use refrain_job::config::JobConfig;
use refrain_logging::Member;
use signal_hook::consts::{
    SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPIPE, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ,
};

/// What a program's own fault looks like.
const CRASHES: [i32; 10] = [
    SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGPIPE, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ,
];

/// How often one rank is started again where its protocol can recover, unless
/// told otherwise.
pub const MAX_RESTARTS_DEFAULT: u32 = 8;

/// Whether a rank of this protocol can be started again: what was sent to it is
/// kept, and what happened to it is stable somewhere.
pub fn can_recover(protocol: &str) -> bool {
    let member = protocol.parse::<Member>();
    member.is_ok_and(|member| member.keeps_payload() && member.logs_events())
}

/// Refuses restarts that nobody could recover from.
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

/// What follows from a rank's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sequel {
    /// It is started again.
    Again,
    /// All ranks had left the job, and this one is not started again: the job goes on, and
    /// reports the reason at its end.
    Noted(String),
    /// It is judged; with a reason why it is not started again, where it might
    /// have been.
    Judged(Option<String>),
}

/// Where the last fence of the job is for a rank that has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Ahead: other ranks need this one.
    Ahead,
    /// All ranks have passed it, and what was sent to this rank can be read.
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
    /// `max` restarts.
    pub fn new(max: u32) -> Self {
        Self {
            max,
            spent: 0,
            crashes: 0,
        }
    }

    /// What follows from this end of a life. `had_caught_up`: it was the first, or
    /// had come to where the one before was.
    pub fn sequel(&self, end: End, departure: Departure, had_caught_up: bool) -> Sequel {
        let End::Killed(signal) = end else {
            return Sequel::Judged(None);
        };
        if self.max == 0 {
            return Sequel::Judged(None);
        }
        let why = match departure {
            Departure::Without(what) => Some(what.to_owned()),
            _ => self.why_not(signal, had_caught_up),
        };
        let Some(why) = why else {
            return Sequel::Again;
        };
        let why = format!("it is not started again: {why}");
        match departure {
            Departure::Ahead => Sequel::Judged(Some(why)),
            Departure::Behind | Departure::Without(_) => Sequel::Noted(why),
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

    /// It is started again after this end.
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

/// How a rank behind a wrapper ended: shells exit with 128 + signal when what
/// they started was killed.
pub fn behind_wrapper(end: End) -> End {
    match end {
        End::Exited(status @ 129..=192) => End::Killed(status - 128),
        other => other,
    }
}

/// For people, behind "rank R".
pub fn how(end: End) -> String {
    match end {
        End::Exited(status) => format!("exited with status {status}"),
        End::Killed(signal) => format!("was killed by {}", signal_name(signal)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGKILL, SIGTERM};

    const KILLED: End = End::Killed(SIGKILL);

    /// How many lives follow the first when each ends like this.
    fn lives_after(max: u32, end: End, had_caught_up: bool) -> u32 {
        let mut allowance = Allowance::new(max);
        for life in 0.. {
            let caught_up = life == 0 || had_caught_up;
            if allowance.sequel(end, Departure::Ahead, caught_up) != Sequel::Again {
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
        let sequel = |max, end, departure| Allowance::new(max).sequel(end, departure, true);
        for departure in [Departure::Ahead, Departure::Behind] {
            assert_eq!(sequel(1, KILLED, departure), Sequel::Again);
            assert_eq!(sequel(0, KILLED, departure), Sequel::Judged(None));
            for status in [0, 7] {
                let judged = sequel(1, End::Exited(status), departure);
                assert_eq!(judged, Sequel::Judged(None));
            }
        }
    }

    /// Others print their results: they go on.
    #[test]
    fn behind_the_last_fence_the_death_of_a_rank_does_not_end_the_job() {
        let allowance = Allowance::new(1);
        let noted = |sequel| match sequel {
            Sequel::Noted(why) => why,
            other => panic!("{other:?}"),
        };
        let why = noted(allowance.sequel(KILLED, Departure::Without("no log"), true));
        assert_eq!(why, "it is not started again: no log");
        let why = noted(allowance.sequel(KILLED, Departure::Behind, false));
        assert!(why.contains("--max-restarts 1"), "{why}");
    }

    #[test]
    fn a_limit_that_is_reached_is_explained() {
        let mut allowance = Allowance::new(1);
        allowance.spend(KILLED, true);
        let Sequel::Judged(Some(why)) = allowance.sequel(KILLED, Departure::Ahead, true) else {
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
