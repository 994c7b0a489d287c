//! Faults to inject, and when. Pure: the time since the start of the job is an argument.

use super::verdict::Cause;
use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Process to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A rank.
    Rank(u32),
    /// An event logger that the launcher has started, by its number.
    EventLogger(u32),
}

/// When to kill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At this time after the start of the job.
    After(Duration),
    /// When the rank's clock reaches this value, in its first life.
    Clock(u64),
}

/// A kill of `--kill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The process to kill.
    pub target: Target,
    /// When to kill it.
    pub moment: Moment,
}

/// A pause of `--pause`: a rank is stopped (SIGSTOP) for a while, which looks like its death but
/// is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The rank to stop.
    pub rank: u32,
    /// Time since the start of the job.
    pub at: Duration,
    /// Length of the pause.
    pub length: Duration,
}

/// `--kill-random`: ranks are killed at exponentially distributed times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillRandom {
    /// The mean time between two kills in the whole job.
    pub mean: Duration,
    /// Seed of the random times. `None`: a new one for each job, which is printed.
    pub seed: Option<u64>,
}

/// Faults to inject, and when a stopped rank counts as lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultSpec {
    /// Ranks and event loggers to kill at given times.
    pub kills: Vec<Kill>,
    /// Kills of random ranks.
    pub kill_random: Option<KillRandom>,
    /// `--kill-in-turn`: no rank is killed while another one is gone. Kills at a time wait, random
    /// ones are left out.
    pub kills_in_turn: bool,
    /// Ranks to stop for a while.
    pub pauses: Vec<Pause>,
    /// `--suspect-ranks-after`: a rank that is stopped for longer counts as lost; it is killed and
    /// restarted. `None`: never.
    pub suspect_after: Option<Duration>,
}

/// Why a text is not a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FaultSpecError {
    /// Not a [`Kill`].
    #[error("use TARGET@WHEN, such as 3@1.5 (rank 3 after 1.5 s), 3@clock=1000 or eventlogger.0@2")]
    Kill,
    /// A kill of an event logger at a clock: event loggers have no clock.
    #[error("event loggers have no clock: use seconds, such as eventlogger.0@2")]
    LoggerClock,
    /// Not a [`Pause`].
    #[error("use RANK@SECONDS:DURATION, such as 3@1.5:0.2 (rank 3 after 1.5 s for 0.2 s)")]
    Pause,
    /// Not a [`KillRandom`].
    #[error(
        "use the average seconds between two kills, such as 2.5, and optionally a seed, such as 2.5,42"
    )]
    KillRandom,
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

impl FromStr for Kill {
    type Err = FaultSpecError;

    fn from_str(text: &str) -> Result<Self, FaultSpecError> {
        let (target, moment) = text.split_once('@').ok_or(FaultSpecError::Kill)?;
        let number = |text: &str| text.parse().map_err(|_| FaultSpecError::Kill);
        let target = match target.strip_prefix("eventlogger.") {
            Some(logger) => Target::EventLogger(number(logger)?),
            None => Target::Rank(number(target)?),
        };
        let moment = match moment.strip_prefix("clock=") {
            Some(_) if matches!(target, Target::EventLogger(_)) => {
                return Err(FaultSpecError::LoggerClock);
            }
            Some(clock) => Moment::Clock(clock.parse().map_err(|_| FaultSpecError::Kill)?),
            None => Moment::After(seconds(moment).ok_or(FaultSpecError::Kill)?),
        };
        Ok(Self { target, moment })
    }
}

impl FromStr for Pause {
    type Err = FaultSpecError;

    fn from_str(text: &str) -> Result<Self, FaultSpecError> {
        let parse = || {
            let (rank, times) = text.split_once('@')?;
            let (at, length) = times.split_once(':')?;
            Some(Self {
                rank: rank.parse().ok()?,
                at: seconds(at)?,
                length: seconds(length)?,
            })
        };
        parse().ok_or(FaultSpecError::Pause)
    }
}

impl FromStr for KillRandom {
    type Err = FaultSpecError;

    fn from_str(text: &str) -> Result<Self, FaultSpecError> {
        let parse = || {
            let (mean, seed) = match text.split_once(',') {
                Some((mean, seed)) => (mean, Some(seed.parse().ok()?)),
                None => (text, None),
            };
            let mean = seconds(mean).filter(|mean| !mean.is_zero())?;
            Some(Self { mean, seed })
        };
        parse().ok_or(FaultSpecError::KillRandom)
    }
}

impl FaultSpec {
    /// Refuses faults of ranks and event loggers that the job does not have.
    ///
    /// # Errors
    /// The fault that is refused, for people.
    pub fn check(&self, ranks: u32, loggers: usize) -> Result<(), String> {
        let mut clocks = BTreeSet::new();
        let ranks_named = self.pauses.iter().map(|pause| ("--pause", pause.rank));
        let killed = self.kills.iter().filter_map(|kill| match kill.target {
            Target::Rank(rank) => Some(("--kill", rank)),
            Target::EventLogger(_) => None,
        });
        if let Some((option, rank)) = killed.chain(ranks_named).find(|(_, rank)| *rank >= ranks) {
            return Err(format!(
                "{option} {rank}@…: the job has ranks 0 to {}",
                ranks - 1
            ));
        }
        for kill in &self.kills {
            match (kill.target, kill.moment) {
                (Target::EventLogger(logger), _) if logger as usize >= loggers => {
                    return Err(format!(
                        "--kill eventlogger.{logger}@…: this job starts {loggers} event loggers, numbered from 0"
                    ));
                }
                (Target::Rank(rank), Moment::Clock(_)) if !clocks.insert(rank) => {
                    return Err(format!(
                        "--kill {rank}@clock=…: only the first incarnation is killed at a clock: name one clock"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The clock at which the first life of a rank kills itself.
    pub fn kill_at_clock(&self, rank: u32) -> Option<u64> {
        self.kills.iter().find_map(|kill| match *kill {
            Kill {
                target: Target::Rank(killed),
                moment: Moment::Clock(clock),
            } if killed == rank => Some(clock),
            _ => None,
        })
    }
}

/// A fault that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Kill a rank or an event logger.
    Kill(Target, Cause),
    /// Stop a rank for a time.
    Stop(u32, Duration),
    /// Continue a rank, if the given incarnation still runs.
    Continue(u32, u32),
    /// Kill a random rank.
    KillAny,
}

/// The faults that are still to be injected.
#[derive(Debug)]
pub struct Schedule {
    /// Sorted by time, the latest first.
    actions: Vec<(Duration, Action)>,
    random: Option<(Duration, fastrand::Rng)>,
}

impl Schedule {
    /// All faults of `spec`; `seed` is the seed of random kills.
    pub fn new(spec: &FaultSpec, seed: u64) -> Self {
        let mut schedule = Self {
            actions: Vec::new(),
            random: None,
        };
        for kill in &spec.kills {
            if let Moment::After(at) = kill.moment {
                schedule.add(at, Action::Kill(kill.target, Cause::Kill));
            }
        }
        for pause in &spec.pauses {
            schedule.add(pause.at, Action::Stop(pause.rank, pause.length));
        }
        if let Some(random) = spec.kill_random {
            schedule.random = Some((random.mean, fastrand::Rng::with_seed(seed)));
            schedule.add_random(Duration::ZERO);
        }
        schedule
    }

    /// Adds an action; it follows actions of the same time.
    pub fn add(&mut self, at: Duration, action: Action) {
        let place = self.actions.partition_point(|(other, _)| *other > at);
        let place = place
            - self.actions[..place]
                .iter()
                .rev()
                .take_while(|(other, _)| *other == at)
                .count();
        self.actions.insert(place, (at, action));
    }

    fn add_random(&mut self, now: Duration) {
        let Some((mean, random)) = &mut self.random else {
            return;
        };
        // `1 - u` is above 0.
        let wait = mean.as_secs_f64() * -(1.0 - random.f64()).ln();
        let wait = Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX);
        if let Some(at) = now.checked_add(wait) {
            self.add(at, Action::KillAny);
        }
    }

    /// When the next action is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.actions.last().map(|(at, _)| *at)
    }

    /// The next action, if it is due.
    pub fn take_due(&mut self, now: Duration) -> Option<Action> {
        let (at, action) = self.actions.pop_if(|(at, _)| *at <= now)?;
        if action == Action::KillAny {
            self.add_random(at);
        }
        Some(action)
    }

    /// A random number below `of`; `None` if `of` is 0 or no kills are random.
    pub fn choose(&mut self, of: usize) -> Option<usize> {
        let (_, random) = self.random.as_mut()?;
        (of > 0).then(|| random.usize(..of))
    }
}

#[cfg(test)]
mod tests;
