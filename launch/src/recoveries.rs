//! What is told of each recovery: who died, why, and what it took until the next
//! life was where the one before had been. Pure; times come in.

use super::verdict::{End, signal_name};
use refrain_job::control::message::RecoveryFigures;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

/// Why a rank was killed, as far as its launcher knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// By somebody, or by itself.
    Unknown,
    /// `--kill`.
    Kill,
    /// `--kill-random`.
    KillRandom,
    /// `--suspect-ranks-after`.
    Suspected,
    /// Another rank's fabric had given it up.
    Lost,
    /// It had to close all its connections, and asked for it.
    Disconnected,
}

impl Cause {
    /// For people; empty where nothing is known.
    pub(super) fn by(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Kill => "by --kill",
            Self::KillRandom => "by --kill-random",
            Self::Suspected => "by --suspect-ranks-after: it was stopped",
            Self::Lost => "as another rank did not reach it any more",
            Self::Disconnected => "as a transfer into its memory did not end",
        }
    }
}

/// One death of a rank that was started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Which rank.
    pub rank: u32,
    /// The life that ended; the next is what recovered.
    pub incarnation: u32,
    /// The signal that ended it.
    pub signal: i32,
    /// Who sent it.
    pub cause: Cause,
    /// From the signal until the launcher saw the end, in microseconds, where the
    /// launcher had sent it.
    pub noticed_us: Option<u64>,
    /// From then until the next life was started: the life before is fenced, its
    /// output is read.
    pub started_us: u64,
    /// From then until it had joined the job.
    pub joined_us: Option<u64>,
    /// From the launcher's seeing the end until the next life said that it goes on
    /// where the one before was. `None`: it died before, or the job ended.
    pub total_us: Option<u64>,
    /// What it told then.
    pub figures: Option<RecoveryFigures>,
}

/// One that is going on.
#[derive(Debug)]
struct Open {
    recovery: Recovery,
    noticed: Instant,
    started: Instant,
}

/// The recoveries of a job.
#[derive(Debug)]
pub struct Recoveries {
    /// By rank.
    open: Vec<Option<Open>>,
    done: Vec<Recovery>,
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A signal that the launcher has sent to kill a rank.
#[derive(Clone, Copy, Debug)]
pub struct Shot {
    /// When.
    pub at: Instant,
    /// Why.
    pub cause: Cause,
}

impl Recoveries {
    /// None, of so many ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            open: (0..ranks).map(|_| None).collect(),
            done: Vec::new(),
        }
    }

    /// A life of a rank has ended, and the next was started. Returns the line for a
    /// recovery that this ends.
    pub fn started(
        &mut self,
        (rank, incarnation): (usize, u32),
        end: End,
        shot: Option<Shot>,
        cause: Cause,
        (noticed, started): (Instant, Instant),
    ) -> Option<String> {
        let line = self.open[rank].take().map(|open| {
            let line = format!(
                "{}; {}",
                open.recovery.what_happened(),
                died_again(incarnation, end)
            );
            self.done.push(open.recovery);
            line
        });
        let signal = match end {
            End::Killed(signal) => signal,
            End::Exited(status) => status - 128,
        };
        self.open[rank] = Some(Open {
            recovery: Recovery {
                rank: rank as u32,
                incarnation,
                signal,
                cause: shot.map_or(cause, |shot| shot.cause),
                noticed_us: shot.map(|shot| microseconds(noticed - shot.at)),
                started_us: microseconds(started - noticed),
                joined_us: None,
                total_us: None,
                figures: None,
            },
            noticed,
            started,
        });
        line
    }

    /// The next life has joined the job.
    pub fn joined(&mut self, rank: usize, now: Instant) {
        if let Some(open) = &mut self.open[rank] {
            open.recovery.joined_us = Some(microseconds(now - open.started));
        }
    }

    /// The next life is where the one before was. Returns the line that says so.
    pub fn finished(
        &mut self,
        rank: usize,
        figures: RecoveryFigures,
        now: Instant,
    ) -> Option<String> {
        let mut open = self.open[rank].take()?;
        open.recovery.total_us = Some(microseconds(now - open.noticed));
        open.recovery.figures = Some(figures);
        let line = open.recovery.to_string();
        self.done.push(open.recovery);
        Some(line)
    }

    /// All that have come to an end.
    pub fn ended(&self) -> &[Recovery] {
        &self.done
    }

    /// Whether a recovery of this rank that has ended had other bytes in messages.
    pub fn has_differed(&self, rank: usize) -> bool {
        let figures = |recovery: &Recovery| Some(recovery.figures.as_ref()?.differing);
        let mut of_rank = self.done.iter().filter(|done| done.rank as usize == rank);
        of_rank.any(|recovery| figures(recovery) > Some(0))
    }

    /// How many have come to an end.
    pub fn done(&self) -> usize {
        self.done.len()
    }

    /// All, also those that did not come to their end.
    pub fn take_all(&mut self) -> Vec<Recovery> {
        let mut all = std::mem::take(&mut self.done);
        let open = self.open.iter_mut().filter_map(Option::take);
        all.extend(open.map(|open| open.recovery));
        all
    }
}

fn died_again(incarnation: u32, end: End) -> String {
    format!(
        "incarnation {incarnation} {} before it went on",
        super::restarting::how(end)
    )
}

impl Recovery {
    fn what_happened(&self) -> String {
        let comma = match self.cause {
            Cause::Unknown => "",
            _ => ", ",
        };
        format!(
            "rank {} was killed by {} (incarnation {}{comma}{})",
            self.rank,
            signal_name(self.signal),
            self.incarnation,
            self.cause.by()
        )
    }
}

impl Display for Recovery {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.what_happened())?;
        let (Some(total_us), Some(figures)) = (self.total_us, &self.figures) else {
            return write!(to, "; no later life went on");
        };
        let next = self.incarnation + 1;
        write!(
            to,
            "; incarnation {next} goes on after {}: ",
            Time(total_us)
        )?;
        if let Some(noticed_us) = self.noticed_us {
            write!(to, "noticed {}, ", Time(noticed_us))?;
        }
        write!(to, "started {}, ", Time(self.started_us))?;
        match figures.checkpoint {
            0 => write!(to, "from the beginning, ")?,
            number => write!(
                to,
                "checkpoint {number} read in {}, ",
                Time(figures.restore_us)
            )?,
        }
        write!(
            to,
            "events and peers {}, replay {}: {}, {}, {} held back, {} compared",
            Time(figures.collect_us),
            Time(figures.replay_us),
            count(figures.events, "event"),
            count(figures.messages, "message"),
            count(figures.suppressed, "send"),
            figures.compared,
        )?;
        match figures.differing {
            0 => Ok(()),
            1 => write!(
                to,
                ", 1 differs in {}",
                count(figures.differing_bytes, "byte")
            ),
            differing => write!(
                to,
                ", {differing} differ in {}",
                count(figures.differing_bytes, "byte")
            ),
        }
    }
}

/// Microseconds, for people.
struct Time(u64);

impl Display for Time {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let microseconds = self.0 as f64;
        match self.0 {
            0..10_000 => write!(to, "{:.1} ms", microseconds / 1e3),
            10_000..10_000_000 => write!(to, "{:.0} ms", microseconds / 1e3),
            _ => write!(to, "{:.1} s", microseconds / 1e6),
        }
    }
}

fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests;
