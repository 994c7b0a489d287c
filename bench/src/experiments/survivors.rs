//! `refrain bench survivors`: two pairs of ranks exchange messages, each within itself; a rank of
//! one pair is killed several times. Measures the speed of the other pair meanwhile, the time
//! until a death is detected, and the time until the first message arrives again.
//!
//! A recovery is a standstill of the dead rank's partner: the time between two successive round
//! trips. After N deaths, the N longest standstills count as recoveries.
//! The rate of the other pair during a recovery is compared with its rate outside of all
//! recoveries. As a control, the same is done for intervals of the same length half a period
//! later, in which nothing fails: the difference there is noise.
//!
//! Each pair runs on a core of its own. The processes that work on the recovery (launcher, event
//! logger, the next life) run on the core of the dead rank's pair: otherwise the surviving pair
//! would have less processor time during recoveries.

mod course;

use super::jobs::Jobs;
use super::{Reporting, milliseconds, repeat};
use crate::drawing::axis::Axis;
use crate::drawing::chart::{Chart, Panel, Series, Shape};
use crate::error::BenchError;
use crate::job::Job;
use crate::machine;
use crate::report::{print, table};
use crate::summary::Summary;
use crate::workload::pairs::{COURSE_FILE, Note, STANDSTILLS_FILE, Standstill};
use course::{BEFORE_MS, Course, STEP_MS};
use refrain_launch::Recovery;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

/// The rank that is killed.
const VICTIM: u32 = 3;

/// Parameters of pairs of which one loses a rank.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Number of jobs.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Deaths per job.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    deaths: u32,
    /// Seconds between two deaths.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = seconds)]
    every: f64,
    /// Length of a message.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    bytes: u64,
    /// Messages between two checkpoints of the killed rank; 0: no checkpoints.
    #[arg(long, value_name = "MESSAGES", default_value_t = 0)]
    checkpoint_every: u64,
    /// Fabric of messages.
    #[arg(long, default_value = "auto")]
    fabric: String,
    #[command(flatten)]
    #[serde(skip)]
    reporting: Reporting,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give at least 0.05 seconds, such as 0.5".into()),
    }
}

/// Results of one job.
#[derive(Clone, Debug, Serialize)]
struct Run {
    repetition: u32,
    /// Round trips per second of the surviving pair, outside of recoveries.
    outside_per_s: f64,
    /// By recovery: duration of the standstill of the other pair, in ms.
    standstill_ms: Vec<f64>,
    /// By recovery: rate of the surviving pair relative to its rate outside.
    during: Vec<f64>,
    /// The same half a period later, as a control.
    control: Vec<f64>,
    /// Relative rate by time since the beginning of a standstill, in steps of [`course::STEP_MS`].
    around: Vec<Vec<f64>>,
    /// Recoveries, as the launcher reports them.
    recoveries: Vec<Recovery>,
}

/// Runs the experiment.
///
/// # Errors
/// When a job fails, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let reporting = &arguments.reporting;
    reporting.check()?;
    let cores = Cores::choose()?;
    let jobs = Jobs::new()?;
    let deaths = [arguments.deaths];
    let name = |deaths| format!("{deaths} deaths");
    let runs = repeat(
        &deaths,
        arguments.repetitions,
        reporting,
        name,
        |repetition, _| one(arguments, &jobs, repetition, &cores),
    )?;
    drop(cores);
    reporting.write("survivors", arguments, &runs, || chart(arguments, &runs))?;
    show(arguments, &runs)
}

/// The cores of the two pairs. While this value exists, this process and its children run on the
/// second core.
struct Cores {
    /// Core of the surviving pair.
    first: usize,
    /// Core of all other processes.
    second: usize,
    before: CpuSet,
}

impl Cores {
    /// # Errors
    /// There is only one core.
    fn choose() -> Result<Self, BenchError> {
        let refused = || BenchError::system("cannot choose cores for the pairs");
        let before = sched_getaffinity(None).map_err(refused())?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core));
        let (Some(first), Some(second)) = (cores.next(), cores.next()) else {
            return Err(BenchError::failed(
                "each pair needs a core of its own: there is one core only",
            ));
        };
        let mut all_else = CpuSet::new();
        all_else.set(second);
        sched_setaffinity(None, &all_else).map_err(refused())?;
        Ok(Self {
            first,
            second,
            before,
        })
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        // Setting it has succeeded before.
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn job(arguments: &Arguments, cores: &Cores) -> Job {
    let Cores { first, second, .. } = cores;
    let kills: Vec<String> = (1..=arguments.deaths)
        .map(|death| format!("{VICTIM}@{:.4}", f64::from(death) * arguments.every))
        .collect();
    // A whole period follows the last death, too.
    let seconds = f64::from(arguments.deaths + 1) * arguments.every;
    Job::new(
        4,
        &format!(
            "--no-pin --protocol pessimist --fabric {} --max-restarts 100000 --kill {}",
            arguments.fabric,
            kills.join(",")
        ),
        &format!(
            "pairs --seconds {seconds} --bytes {} --cores {first},{second} --checkpoint-every {} \
             --record RECORD",
            arguments.bytes, arguments.checkpoint_every
        ),
    )
}

fn one(
    arguments: &Arguments,
    jobs: &Jobs,
    repetition: u32,
    cores: &Cores,
) -> Result<Run, BenchError> {
    let measured = jobs.run(
        &job(arguments, cores),
        Some("pairs: every answer was right\n"),
    )?;
    let notes: Vec<Note> = jobs.noted(COURSE_FILE)?;
    let standstills: Vec<Standstill> = jobs.noted(STANDSTILLS_FILE)?;
    let windows = course::longest(standstills, measured.recoveries.len());
    let course = Course::new(notes);
    let outside_per_s = course.outside_per_s(&windows);
    let half_a_period_ns = (arguments.every * 0.5e9) as u64;
    let during = |shift_ns: u64| {
        let rate = |window: &Standstill| {
            let rate = course.rate_per_s(window.begin_ns + shift_ns, window.end_ns + shift_ns)?;
            Some(rate / outside_per_s)
        };
        windows.iter().filter_map(rate).collect()
    };
    Ok(Run {
        repetition,
        outside_per_s,
        standstill_ms: windows
            .iter()
            .map(|window| milliseconds(window.length_ns() / 1000))
            .collect(),
        during: during(0),
        control: during(half_a_period_ns),
        around: windows
            .iter()
            .map(|window| course.around(window.begin_ns, outside_per_s))
            .collect(),
        recoveries: measured.recoveries,
    })
}

/// Target: minimum rate of the survivors, relative to their rate outside.
const RATE_MIN: f64 = 0.95;

/// A phase of recovery; its end is measured from the signal.
struct Phase {
    name: &'static str,
    target_ms: Option<f64>,
    until_us: fn(&Recovery) -> Option<u64>,
}

const PHASES: [Phase; 4] = [
    Phase {
        name: "the launcher sees the death",
        target_ms: Some(5.0),
        until_us: |recovery| recovery.noticed_us,
    },
    Phase {
        name: "the next life is started",
        target_ms: None,
        until_us: |recovery| Some(recovery.noticed_us? + recovery.started_us),
    },
    Phase {
        name: "the first message comes again",
        target_ms: Some(100.0),
        until_us: |recovery| {
            let first_us = recovery.figures.as_ref()?.first_message_us?;
            Some(recovery.noticed_us? + recovery.started_us + first_us)
        },
    },
    Phase {
        name: "the replay has ended",
        target_ms: None,
        until_us: |recovery| Some(recovery.noticed_us? + recovery.total_us?),
    },
];

impl Phase {
    fn summary(&self, runs: &[Run]) -> Option<Summary> {
        let all = runs.iter().flat_map(|run| &run.recoveries);
        Summary::of(all.filter_map(self.until_us).map(milliseconds))
    }
}

fn row(name: &str, summary: Option<Summary>, digits: usize, target: String) -> Vec<String> {
    let count = summary.map_or(0, |it| it.count).to_string();
    let values = summary.map(|it| [it.median, it.low, it.high, it.largest]);
    let cells = values.map(|values| values.map(|value| format!("{value:.digits$}")));
    let mut row = vec![name.to_owned(), count];
    row.extend(cells.unwrap_or_default());
    row.push(target);
    row
}

fn show(arguments: &Arguments, runs: &[Run]) -> Result<(), BenchError> {
    print(&format!(
        "{} jobs, {} deaths each, messages of {} bytes; parts of the rate outside of recoveries",
        arguments.repetitions, arguments.deaths, arguments.bytes
    ))?;
    let all = |value: fn(&Run) -> &Vec<f64>| Summary::of(runs.iter().flat_map(value).copied());
    let outside = Summary::of(runs.iter().map(|run| run.outside_per_s));
    let during = "rate of the pair that survives, during recovery";
    let standstill = "standstill of the dead rank's partner, ms";
    let header = [
        "",
        "times",
        "median",
        "a quarter below",
        "a quarter above",
        "largest",
        "target",
    ];
    let none = String::new;
    let rows = [
        row(during, all(|run| &run.during), 3, format!("≥ {RATE_MIN}")),
        row(
            "the same without a fault (noise)",
            all(|run| &run.control),
            3,
            none(),
        ),
        row("round trips a second outside", outside, 0, none()),
        row(standstill, all(|run| &run.standstill_ms), 1, none()),
    ];
    print(&table(header, rows, 0))?;
    print("\nms after the signal")?;
    let rows = PHASES.iter().map(|phase| {
        let target = phase.target_ms.map(|target_ms| format!("≤ {target_ms}"));
        row(
            phase.name,
            phase.summary(runs),
            2,
            target.unwrap_or_default(),
        )
    });
    print(&table(header, rows, 0))
}

fn chart(arguments: &Arguments, runs: &[Run]) -> Chart {
    let steps = runs.iter().flat_map(|run| &run.around).map(Vec::len).max();
    let at_step = |step: usize| {
        let all = runs.iter().flat_map(|run| &run.around);
        let values = all.filter_map(|around| around.get(step).copied());
        let middle_ms = (step as f64 + 0.5) * STEP_MS as f64 - BEFORE_MS as f64;
        Some(Summary::of(values.filter(|value| value.is_finite()))?.at(middle_ms))
    };
    let points: Vec<_> = (0..steps.unwrap_or(0)).filter_map(at_step).collect();
    let end_ms = points.last().map_or(1.0, |point| point.x);
    let phases = PHASES.iter().enumerate();
    let phases: Vec<_> = phases
        .filter_map(|(index, phase)| Some(phase.summary(runs)?.at(index as f64)))
        .collect();
    Chart {
        title: format!(
            "refrain bench survivors: {} deaths of a rank of another pair",
            runs.iter().map(|run| run.recoveries.len()).sum::<usize>()
        ),
        remark: format!(
            "{}; messages of {} bytes",
            machine::describe(),
            arguments.bytes
        ),
        panels: vec![
            Panel {
                title: "rate of the pair that survives, ÷ outside".into(),
                x_name: "ms since the other pair stands still".into(),
                x: Axis::Linear(-(BEFORE_MS as f64), end_ms + STEP_MS as f64),
                y: Axis::from_zero(points.iter().map(|point| point.high).chain([1.0])),
                series: vec![Series::new("median and quartiles", 0, Shape::Line, points)],
                mark: Some(RATE_MIN),
            },
            Panel {
                title: "ms after the signal".into(),
                x_name: String::new(),
                x: Axis::names(["death seen", "started", "first message", "caught up"]),
                y: Axis::from_zero(phases.iter().map(|point| point.high)),
                series: vec![Series::new("", 2, Shape::Bars(0.6), phases)],
                mark: None,
            },
        ],
    }
}
