//! `refrain bench rollback`: a rank of a halo exchange is killed. What does it cost to
//! start that rank again, and what to start all of them again? (User-level message
//! logging, table 2.)
//!
//! | way | without a fault | with one |
//! |---|---|---|
//! | `beginning` | protocol `none`, no checkpoints | the job ends by the death, and is run again |
//! | `coordinated` | protocol `none`; all ranks write checkpoints together | the same, but the second run begins with the last checkpoint of all |
//! | `logging` | protocol `pessimist`; each rank takes its own checkpoints, as often | one job; the rank is started again by its launcher |
//!
//! Both kinds of checkpoints hold the same cells, and are durable. Times are those of
//! whole jobs with their launchers, of both jobs where there are two.

mod show;

use super::jobs::{Ended, Job, Jobs};
use super::report::{Progress, Reporting, status};
use super::{ExperimentError, rotated};
use serde::Serialize;
use std::process::ExitCode;

/// What a launcher ends with when SIGKILL has ended a rank.
const STATUS_KILLED: i32 = 128 + 9;
/// So often a fault may come when the job has ended already.
const TRIES: usize = 5;

/// One rank again, or all of them.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Ranks of the job; the last one is killed
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64))]
    ranks: u32,
    /// Cells along each dimension of the grid
    #[arg(long, value_name = "CELLS", default_value_t = 1024)]
    size: usize,
    /// Number of iterations over all cells
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Iterations between two checkpoints
    #[arg(long, value_name = "ITERATIONS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: u64,
    /// Time of the death, as a part of the time of a job without faults
    #[arg(long, value_name = "PART", default_value_t = 0.7, value_parser = part)]
    at: f64,
    /// Number of measurements
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Fabric of messages
    #[arg(long, default_value = "auto")]
    fabric: String,
    #[command(flatten)]
    #[serde(skip)]
    reporting: Reporting,
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if part > 0.0 && part < 1.0 => Ok(part),
        _ => Err("say a part of the run between 0 and 1, like 0.7".into()),
    }
}

/// How a job survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    Beginning,
    Coordinated,
    Logging,
}

impl Way {
    const ALL: [Self; 3] = [Self::Beginning, Self::Coordinated, Self::Logging];

    fn name(self) -> &'static str {
        match self {
            Self::Beginning => "all again, from the beginning",
            Self::Coordinated => "all again, from a common checkpoint",
            Self::Logging => "one again, by message logging",
        }
    }

    /// `kill`: of `refrain run`, if anything.
    fn job(self, arguments: &Arguments, kill: &str) -> Job {
        let every = arguments.checkpoint_every;
        let (protocol, checkpoints) = match self {
            Self::Beginning => ("none", String::new()),
            Self::Coordinated => (
                "none",
                format!("--coordinated-dir KEPT --coordinated-every {every}"),
            ),
            Self::Logging => ("pessimist", format!("--checkpoint-every {every}")),
        };
        Job::new(
            arguments.ranks,
            &format!("--protocol {protocol} --fabric {} {kill}", arguments.fabric),
            &format!(
                "stencil --size {} --iterations {} {checkpoints}",
                arguments.size, arguments.iterations
            ),
        )
    }
}

/// What one or two jobs took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Taken {
    wall_s: f64,
    /// Of all processes.
    cpu_s: f64,
}

impl Taken {
    fn of(ended: &[&Ended]) -> Self {
        Self {
            wall_s: ended.iter().map(|it| it.wall_s).sum(),
            cpu_s: ended.iter().map(|it| it.cpu_s).sum(),
        }
    }
}

/// A run without a fault, and one with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    repetition: u32,
    way: Way,
    calm: Taken,
    fault: Taken,
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
    let jobs = Jobs::new()?;
    let count = Way::ALL.len() * arguments.repetitions as usize;
    let progress = Progress::new(count, arguments.reporting.quiet);
    let mut runs = Vec::new();
    let mut line = None;
    for repetition in 0..arguments.repetitions {
        for index in rotated(Way::ALL.len(), repetition as usize) {
            let way = Way::ALL[index];
            progress.begin(way.name().to_owned());
            jobs.forget()?;
            let calm = jobs.run(&way.job(arguments, ""), line.as_deref())?;
            let after_s = calm.wall_s * arguments.at;
            let line = line.get_or_insert_with(|| calm.out.clone());
            runs.push(Run {
                repetition,
                way,
                calm: Taken::of(&[&calm]),
                fault: with_a_fault(arguments, &jobs, way, after_s, line)?,
            });
            progress.step();
        }
    }
    drop(progress);
    let reporting = &arguments.reporting;
    reporting.write_json("rollback", arguments, &runs)?;
    reporting.write_svg(|| show::chart(arguments, &runs))?;
    show::table(arguments, &runs)
}

fn with_a_fault(
    arguments: &Arguments,
    jobs: &Jobs,
    way: Way,
    after_s: f64,
    line: &str,
) -> Result<Taken, ExperimentError> {
    let kill = format!("--kill {}@{after_s:.4}", arguments.ranks - 1);
    let job = way.job(arguments, &kill);
    for _ in 0..TRIES {
        jobs.forget()?;
        if way == Way::Logging {
            let ended = jobs.run(&job, Some(line))?;
            if !ended.recoveries.is_empty() {
                return Ok(Taken::of(&[&ended]));
            }
            continue;
        }
        let died = jobs.end(&job)?;
        if died.status == Some(STATUS_KILLED) {
            let second = jobs.run(&way.job(arguments, ""), Some(line))?;
            return Ok(Taken::of(&[&died, &second]));
        }
        died.expect(&job, Some(line))?;
    }
    Err(ExperimentError::Option {
        option: "--at",
        problem: format!("{TRIES} times the job had ended before the rank was to be killed"),
        help: "give a smaller part, or --iterations for longer jobs".into(),
    })
}
