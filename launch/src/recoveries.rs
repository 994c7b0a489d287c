//! Reports of recoveries: which rank died, why, and how long recovery took; messages of the
//! replay that had other bytes, and the job's exit status for them (REC-8). Pure; times come
//! in.

use super::Outcome;
use super::verdict::End;
use crate::size::count;
use refrain_job::control::message::RecoveryFigures;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fmt::{Display, Formatter};
use std::time::{Duration, Instant};

/// Why a rank was killed, as far as its launcher knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// By another process, or by itself.
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

/// The end of a life whose rank is restarted.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// The life that ended.
    pub incarnation: u32,
    /// How it ended.
    pub end: End,
    /// The launcher's own kill.
    pub shot: Option<Shot>,
    /// Why it was killed without that, as far as the launcher knows.
    pub cause: Cause,
    /// When its end was seen.
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

    /// A life of a rank has ended, and the next was started. Returns the line for a
    /// recovery that this ends.
    pub fn started(&mut self, rank: usize, death: Death, started: Instant) -> Option<String> {
        let Death {
            incarnation,
            end,
            shot,
            noticed,
            ..
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
            End::Exited(status) => status - 128,
        };
        self.open[rank] = Some(Open {
            recovery: Recovery {
                rank: rank as u32,
                incarnation,
                signal,
                cause: shot.map_or(death.cause, |shot| shot.cause),
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

    /// All, also those that did not come to their end.
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
        format!(
            "rank {} {} (incarnation {}{comma}{})",
            self.rank,
            End::Killed(self.signal),
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

/// Exit status of a job in which replayed messages had other bytes, and everything
/// else went well.
pub const DIFFERED: i32 = 80;

/// What such bytes mostly are, and which options help.
const MEANING: &str = "such bytes are mostly padding or memory that the program never wrote, a time, an address or \
     a process id: --record-clocks and --same-memory make them the same in each life, \
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
fn summarize(recoveries: &[Recovery]) -> Option<String> {
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

/// The outcome of a job at its end, and a line that is still to be printed.
pub fn conclude(outcome: Outcome, recoveries: &[Recovery]) -> (Outcome, Option<String>) {
    let summary = summarize(recoveries);
    match (outcome.status, &outcome.failure, &summary) {
        (0, None, Some(_)) => (Outcome::new(DIFFERED, summary), None),
        _ => (outcome, summary),
    }
}

/// How much differs in these replays together, for people.
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

#[cfg(test)]
mod differences_tests {
    use super::*;
    use refrain_job::control::message::DifferenceFigures;

    fn figures(differing: u64) -> RecoveryFigures {
        RecoveryFigures {
            compared: 100,
            compared_bytes: 2400,
            differing,
            differing_bytes: 4 * differing,
            first_difference: (differing > 0).then(|| DifferenceFigures {
                operation: 7,
                receiver: 1,
                message: 2,
                context: 0,
                tag: 5,
                bytes: 24,
                ranges: vec![(4, 8)],
                has_more: false,
            }),
            ..RecoveryFigures::default()
        }
    }

    fn recovery(rank: u32, figures: Option<RecoveryFigures>) -> Recovery {
        Recovery {
            rank,
            incarnation: 0,
            signal: 9,
            cause: Cause::Unknown,
            noticed_us: None,
            started_us: 0,
            joined_us: None,
            total_us: None,
            figures,
        }
    }

    #[test]
    fn a_rank_is_explained_once_it_differs() {
        assert_eq!(explain(3, &figures(0)), None);
        let line = explain(3, &figures(2)).expect("it differs");
        let begin = "rank 3 sent other bytes in its replay than before: \
         2 of 100 compared messages differ, in 8 of 2400 bytes; operation 7: \
         message 2 to rank 1 (context 0, tag 5, 24 bytes) has other bytes at 4..7; ";
        assert!(line.starts_with(begin), "{line}");
        for option in ["--record-clocks", "--same-memory", "--divergence stop"] {
            assert!(line.contains(option), "{line}");
        }
    }

    #[test]
    fn a_job_that_differed_has_a_status_of_its_own() {
        let all = [
            recovery(0, None),
            recovery(1, Some(figures(0))),
            recovery(5, Some(figures(2))),
            recovery(3, Some(figures(1))),
            recovery(5, Some(figures(2))),
        ];
        let good = Outcome::new(0, None);
        assert_eq!(conclude(good.clone(), &all[..2]), (good.clone(), None));
        let (outcome, line) = conclude(good, &all);
        assert_eq!((outcome.status, line), (DIFFERED, None));
        let summary = outcome.failure.expect("it says why");
        let begin = "the replay of 2 ranks sent other bytes than before: \
         5 of 400 compared messages differ, in 20 of 9600 bytes; \
         first difference: rank 5, operation 7: message 2 to rank 1";
        assert!(summary.starts_with(begin), "{summary}");
    }

    #[test]
    fn a_job_that_failed_keeps_its_status_and_says_both() {
        let failed = Outcome::new(3, Some("rank 1 exited".into()));
        let (outcome, line) = conclude(failed.clone(), &[recovery(5, Some(figures(2)))]);
        assert_eq!(outcome, failed);
        assert!(line.expect("a line").contains("the replay of rank 5 sent"));
    }
}
