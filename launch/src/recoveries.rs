//! Reports of recoveries: which rank died, why, and how long recovery took; messages of the
//! replay that had other bytes (REC-8). Pure; times are arguments.

use super::verdict::{Cause, End};
use crate::size::count;
use refrain_job::control::message::RecoveryFigures;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fmt::{Display, Formatter};
use std::time::{Duration, Instant};

/// The death of a rank that was restarted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Which rank.
    pub rank: u32,
    /// The incarnation that ended; the next incarnation recovered.
    pub incarnation: u32,
    /// The signal that ended the life; 0: it had ended well, and went back with its set.
    pub signal: i32,
    /// Why the signal was sent.
    pub cause: Cause,
    /// Microseconds from the signal until the launcher saw the end, if the launcher had sent the
    /// signal.
    pub noticed_us: Option<u64>,
    /// Microseconds from then until the next life was started: fencing of the earlier life and
    /// reading of its output.
    pub started_us: u64,
    /// Microseconds from then until the next life had joined the job.
    pub joined_us: Option<u64>,
    /// Microseconds from the moment at which the launcher saw the end until the next life had
    /// caught up. `None`: the next life died before, or the job ended.
    pub total_us: Option<u64>,
    /// Figures that the next life has reported.
    pub figures: Option<RecoveryFigures>,
}

/// A recovery that has not ended.
#[derive(Debug)]
struct Open {
    recovery: Recovery,
    noticed: Instant,
    started: Instant,
}

/// The recoveries of a job.
#[derive(Debug)]
pub struct Recoveries {
    /// By rank, the recovery that has not ended.
    open: Vec<Option<Open>>,
    done: Vec<Recovery>,
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A signal that the launcher has sent to kill a rank.
#[derive(Clone, Copy, Debug)]
pub struct Shot {
    /// When it was sent.
    pub at: Instant,
    /// Why it was sent.
    pub cause: Cause,
}

/// The end of a life whose rank is restarted.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// The life that ended.
    pub incarnation: u32,
    /// How it ended.
    pub end: End,
    /// Why it was killed, as far as the launcher knows.
    pub cause: Cause,
    /// When the launcher has killed it, if it has.
    pub killed: Option<Instant>,
    /// When the launcher saw its end.
    pub noticed: Instant,
}

impl Recoveries {
    /// No recoveries of `ranks` ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            open: (0..ranks).map(|_| None).collect(),
            done: Vec::new(),
        }
    }

    /// A life of a rank has ended, and the next one was started. Returns the report of an earlier
    /// recovery that ends with this death.
    pub fn started(&mut self, rank: usize, death: Death, started: Instant) -> Option<String> {
        let Death {
            incarnation,
            end,
            cause,
            killed,
            noticed,
        } = death;
        let line = self.open[rank].take().map(|open| {
            let line = format!(
                "{}; incarnation {incarnation} {end} before it continued",
                open.recovery.what_happened()
            );
            self.done.push(open.recovery);
            line
        });
        let signal = match end {
            End::Killed(signal) => signal,
            End::Exited(status) => (status - 128).max(0),
        };
        self.open[rank] = Some(Open {
            recovery: Recovery {
                rank: rank as u32,
                incarnation,
                signal,
                cause,
                noticed_us: killed.map(|killed| microseconds(noticed - killed)),
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

    /// The next life has caught up. Returns a line to report.
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

    /// All recoveries that have ended.
    pub fn ended(&self) -> &[Recovery] {
        &self.done
    }

    /// Whether an ended recovery of this rank sent messages with other bytes.
    pub fn has_differed(&self, rank: usize) -> bool {
        let figures = |recovery: &Recovery| Some(recovery.figures.as_ref()?.differing);
        let mut of_rank = self.done.iter().filter(|done| done.rank as usize == rank);
        of_rank.any(|recovery| figures(recovery) > Some(0))
    }

    /// All recoveries, also those that have not ended.
    pub fn take_all(&mut self) -> Vec<Recovery> {
        let mut all = std::mem::take(&mut self.done);
        let open = self.open.iter_mut().filter_map(Option::take);
        all.extend(open.map(|open| open.recovery));
        all
    }
}

impl Recovery {
    fn what_happened(&self) -> String {
        let comma = if self.cause == Cause::Unknown {
            ""
        } else {
            ", "
        };
        let what = match self.signal {
            0 => "had ended and is started again".to_owned(),
            signal => End::Killed(signal).to_string(),
        };
        format!(
            "rank {} {what} (incarnation {}{comma}{})",
            self.rank,
            self.incarnation,
            self.cause.by()
        )
    }
}

impl Display for Recovery {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.what_happened())?;
        let (Some(total_us), Some(figures)) = (self.total_us, &self.figures) else {
            return write!(to, "; no later incarnation continued");
        };
        let next = self.incarnation + 1;
        write!(
            to,
            "; incarnation {next} continues after {}: ",
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
            "events and peers {}, replay {}: {}, {}, {} suppressed, {} compared",
            Time(figures.collect_us),
            Time(figures.replay_us),
            count(figures.events, "event"),
            count(figures.messages, "message"),
            count(figures.suppressed, "send"),
            figures.compared,
        )?;
        let bytes = count(figures.differing_bytes, "byte");
        match figures.differing {
            0 => Ok(()),
            1 => write!(to, ", 1 differs in {bytes}"),
            differing => write!(to, ", {differing} differ in {bytes}"),
        }
    }
}

/// A time in microseconds, shown for people.
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

/// Usual causes of differing bytes, and options that help.
const MEANING: &str = "such bytes are mostly padding or memory that the program never wrote, a time, an address or \
     a process id: --record-clocks and --same-memory make them the same in each incarnation, \
     --divergence stop ends the job at the first of them";

/// The report about a rank. `None`: its messages do not differ.
pub fn explain(rank: usize, figures: &RecoveryFigures) -> Option<String> {
    let first = figures.first_difference.as_ref()?;
    Some(format!(
        "rank {rank} sent other bytes in its replay than before: {}; {first}; \
         receivers keep the first bytes; {MEANING}",
        differences(std::iter::once(figures))
    ))
}

/// The report about the whole job, at its end.
pub fn summarize(recoveries: &[Recovery]) -> Option<String> {
    let mut differing = recoveries.iter().filter_map(|recovery| {
        let first = recovery.figures.as_ref()?.first_difference.as_ref()?;
        Some((recovery.rank, first))
    });
    let (rank, first) = differing.next()?;
    let mut ranks = vec![rank];
    ranks.extend(differing.map(|(rank, _)| rank));
    ranks.sort_unstable();
    ranks.dedup();
    let which = match ranks.as_slice() {
        [rank] => format!("rank {rank}"),
        several => format!("{} ranks", several.len()),
    };
    let figures = recoveries.iter().filter_map(|one| one.figures.as_ref());
    let counts = differences(figures);
    Some(format!(
        "the replay of {which} sent other bytes than before: {counts}; first difference: rank {rank}, {first}; {MEANING}"
    ))
}

/// Number of messages and bytes that differ in these replays together, for people.
fn differences<'a>(replays: impl Iterator<Item = &'a RecoveryFigures> + Clone) -> String {
    let sum = |of: fn(&RecoveryFigures) -> u64| replays.clone().map(of).sum::<u64>();
    format!(
        "{} of {} compared messages differ, in {} of {} bytes",
        sum(|replay| replay.differing),
        sum(|replay| replay.compared),
        sum(|replay| replay.differing_bytes),
        sum(|replay| replay.compared_bytes)
    )
}

#[cfg(test)]
mod tests;
