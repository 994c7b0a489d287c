//! `refrain bench survivors`: two pairs of ranks that exchange messages and have
//! nothing to do with each other; a rank of one pair is killed, again and again. How
//! fast is the other pair meanwhile? And how soon is a death seen, and does the first
//! message come again?
//!
//! A time of recovery is one in which the dead rank's partner stood still: from its
//! last round trip before the death to its first one after it; the longest
//! standstills are those, as many as there were deaths. The rate of the other pair in
//! it is compared with its rate in all the time that belongs to no recovery, and so
//! is its rate in times of the same length half a period later, in which nothing
//! fails: what differs there is noise.
//!
//! Each pair stays on a core of its own, and what works on the recovery (launcher,
//! event logger, the new process) on that of the pair that needs it: else two
//! programs would be compared that have less of a processor.

mod course;
mod show;

use super::jobs::{Job, Jobs};
use super::report::{Progress, Reporting, status};
use super::{ExperimentError, milliseconds};
use crate::workload::pairs::{COURSE_FILE, Note, STANDSTILLS_FILE, Standstill};
use course::Course;
use refrain_launch::Recovery;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;
use std::process::ExitCode;

/// The rank that dies.
const VICTIM: u32 = 3;

/// Ranks that do not need the dead one.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Number of jobs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Deaths per job
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    deaths: u32,
    /// Seconds between two deaths
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = seconds)]
    every: f64,
    /// Length of a message
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    bytes: u64,
    /// Messages between two checkpoints of the killed rank; 0: no checkpoints
    #[arg(long, value_name = "MESSAGES", default_value_t = 0)]
    checkpoint_every: u64,
    /// Fabric of messages
    #[arg(long, default_value = "auto")]
    fabric: String,
    #[command(flatten)]
    #[serde(skip)]
    reporting: Reporting,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("say seconds, at least 0.05, like 0.5".into()),
    }
}

/// One job.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    repetition: u32,
    /// Round trips a second of the pair that survives, outside of recoveries.
    outside_per_s: f64,
    /// By recovery: how long the other pair stood still …
    standstill_ms: Vec<f64>,
    /// … what part of its rate outside the pair that survives had meanwhile …
    during: Vec<f64>,
    /// … and half a period later.
    control: Vec<f64>,
    /// By time since the beginning of a standstill, in steps of [`course::STEP_MS`].
    around: Vec<Vec<f64>>,
    /// The launcher's figures.
    recoveries: Vec<Recovery>,
}

/// Runs the experiment.
///
/// # Errors
/// When it cannot be done, or a job does not do what it must.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    status(measure(arguments))
}

fn measure(arguments: &Arguments) -> Result<(), ExperimentError> {
    arguments.reporting.check()?;
    let cores = Cores::choose()?;
    let jobs = Jobs::new()?;
    let progress = Progress::new(arguments.repetitions as usize, arguments.reporting.quiet);
    let mut runs = Vec::new();
    for repetition in 0..arguments.repetitions {
        progress.begin(format!("{} deaths", arguments.deaths));
        runs.push(one(arguments, &jobs, repetition, &cores)?);
        progress.step();
    }
    drop(progress);
    drop(cores);
    let reporting = &arguments.reporting;
    reporting.write_json("survivors", arguments, &runs)?;
    reporting.write_svg(|| show::chart(arguments, &runs))?;
    show::tables(arguments, &runs)
}

/// Where the pairs stay. While it lives, this process and what it starts stay on the
/// second core.
struct Cores {
    /// That of the pair that survives.
    first: usize,
    /// That of all else.
    second: usize,
    before: CpuSet,
}

impl Cores {
    /// # Errors
    /// When there is one core only.
    fn choose() -> Result<Self, ExperimentError> {
        let refused = |error: rustix::io::Errno| {
            ExperimentError::system("cannot choose cores for the pairs")(error.into())
        };
        let before = sched_getaffinity(None).map_err(refused)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core));
        let (Some(first), Some(second)) = (cores.next(), cores.next()) else {
            return Err(ExperimentError::System {
                attempted: "each pair needs a core of its own",
                error: std::io::Error::other("there is one only"),
            });
        };
        let mut all_else = CpuSet::new();
        all_else.set(second);
        sched_setaffinity(None, &all_else).map_err(refused)?;
        Ok(Self {
            first,
            second,
            before,
        })
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        // It could be set before.
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn job(arguments: &Arguments, cores: &Cores) -> Job {
    let Cores { first, second, .. } = cores;
    let kills: Vec<String> = (1..=arguments.deaths)
        .map(|death| format!("{VICTIM}@{:.4}", f64::from(death) * arguments.every))
        .collect();
    // The last recovery has a whole period, too.
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
) -> Result<Run, ExperimentError> {
    let ended = jobs.run(
        &job(arguments, cores),
        Some("pairs: every answer was right\n"),
    )?;
    let notes: Vec<Note> = jobs.noted(COURSE_FILE)?;
    let standstills: Vec<Standstill> = jobs.noted(STANDSTILLS_FILE)?;
    let windows = course::longest(standstills, ended.recoveries.len());
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
        recoveries: ended.recoveries,
    })
}
