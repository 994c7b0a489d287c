//! `refrain bench rollback`: a rank of a halo exchange is killed. Compares the cost of restarting
//! that rank with that of restarting all ranks (user-level message logging, table 2).
//!
//! | method | without a fault | with one |
//! |---|---|---|
//! | `beginning` | protocol `none`, no checkpoints | the death ends the job, which is run again |
//! | `coordinated` | protocol `none`; all ranks write checkpoints together | the death ends the
//! job; the second run begins with the last common checkpoint |
//! | `logging` | protocol `pessimist`; each rank takes its own checkpoints, as often | one job; the launcher restarts the rank |
//!
//! Both kinds of checkpoints hold the same cells, and are durable. Times are those of whole jobs
//! with their launchers; of both jobs if there are two.

use super::jobs::{Jobs, Measured};
use super::{Common, repeat};
use crate::drawing::axis::Axis;
use crate::drawing::chart::{Chart, Panel, Point, Series, Shape};
use crate::error::BenchError;
use crate::job::Job;
use crate::machine;
use crate::report::{print, table};
use crate::summary::{Summary, cell};
use serde::Serialize;

/// Width of each of the two bars of a method.
const BAR: f64 = 0.38;
/// Status of a launcher after SIGKILL has ended a rank.
const STATUS_KILLED: i32 = 128 + 9;
/// Number of attempts if the job ends before the fault.
const TRIES: usize = 5;

/// Comparison of restarting one rank and all ranks.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Ranks of the job; the last one is killed.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64))]
    ranks: u32,
    /// Cells along each dimension of the grid.
    #[arg(long, value_name = "CELLS", default_value_t = 1024)]
    size: usize,
    /// Number of iterations over all cells.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Iterations between two checkpoints.
    #[arg(long, value_name = "ITERATIONS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: u64,
    /// Time of the death, as a part of the time of a job without faults.
    #[arg(long, value_name = "PART", default_value_t = 0.7, value_parser = part)]
    at: f64,
    #[command(flatten)]
    #[serde(flatten)]
    common: Common,
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if part > 0.0 && part < 1.0 => Ok(part),
        _ => Err("give a part of the run between 0 and 1, such as 0.7".into()),
    }
}

/// Method by which a job survives a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Method {
    Beginning,
    Coordinated,
    Logging,
}

impl Method {
    const ALL: [Self; 3] = [Self::Beginning, Self::Coordinated, Self::Logging];

    fn name(self) -> &'static str {
        match self {
            Self::Beginning => "all again, from the beginning",
            Self::Coordinated => "all again, from a common checkpoint",
            Self::Logging => "one again, by message logging",
        }
    }

    /// The job; `kill` is an option of `refrain run`, or empty.
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
            &format!(
                "--protocol {protocol} --fabric {} {kill}",
                arguments.common.fabric
            ),
            &format!(
                "stencil --size {} --iterations {} {checkpoints}",
                arguments.size, arguments.iterations
            ),
        )
    }
}

/// Time of one job, or of two jobs together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Taken {
    wall_s: f64,
    /// Processor time of all processes.
    cpu_s: f64,
}

impl Taken {
    fn of(measured: &[&Measured]) -> Self {
        Self {
            wall_s: measured.iter().map(|it| it.ended.wall_s).sum(),
            cpu_s: measured.iter().map(|it| it.cpu_s).sum(),
        }
    }
}

/// A run without a fault, and one with a fault.
#[derive(Clone, Debug, Serialize)]
struct Run {
    repetition: u32,
    #[serde(rename = "way")]
    method: Method,
    calm: Taken,
    fault: Taken,
}

/// Runs the experiment.
///
/// # Errors
/// When a job fails, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let reporting = &arguments.common.reporting;
    reporting.check()?;
    let jobs = Jobs::new()?;
    let mut line = None;
    let name = |method: Method| method.name().to_owned();
    let runs = repeat(
        &Method::ALL,
        arguments.common.repetitions,
        reporting,
        name,
        |repetition, method| {
            jobs.forget()?;
            let calm = jobs.run(&method.job(arguments, ""), line.as_deref())?;
            let after_s = calm.ended.wall_s * arguments.at;
            let line = line.get_or_insert_with(|| calm.ended.out.clone());
            Ok(Run {
                repetition,
                method,
                calm: Taken::of(&[&calm]),
                fault: with_a_fault(arguments, &jobs, method, after_s, line)?,
            })
        },
    )?;
    reporting.write("rollback", arguments, &runs, || chart(arguments, &runs))?;
    show(arguments, &runs)
}

fn with_a_fault(
    arguments: &Arguments,
    jobs: &Jobs,
    method: Method,
    after_s: f64,
    line: &str,
) -> Result<Taken, BenchError> {
    let kill = format!("--kill {}@{after_s:.4}", arguments.ranks - 1);
    let job = method.job(arguments, &kill);
    for _ in 0..TRIES {
        jobs.forget()?;
        if method == Method::Logging {
            let measured = jobs.run(&job, Some(line))?;
            if !measured.recoveries.is_empty() {
                return Ok(Taken::of(&[&measured]));
            }
            continue;
        }
        let died = jobs.end(&job)?;
        if died.ended.status == Some(STATUS_KILLED) {
            let second = jobs.run(&method.job(arguments, ""), Some(line))?;
            return Ok(Taken::of(&[&died, &second]));
        }
        died.expect(&job, Some(line))?;
    }
    Err(BenchError::option(
        "--at",
        format!("{TRIES} times the job had ended before the rank was to be killed"),
        "give a smaller part, or --iterations for longer jobs",
    ))
}

type Value = fn(&Run) -> f64;

/// Columns of the table: name, value.
const COLUMNS: [(&str, Value); 8] = [
    ("without, wall", |run| run.calm.wall_s),
    ("with one", |run| run.fault.wall_s),
    ("more", |run| run.fault.wall_s - run.calm.wall_s),
    ("÷", |run| run.fault.wall_s / run.calm.wall_s),
    ("without, CPU", |run| run.calm.cpu_s),
    ("with one", |run| run.fault.cpu_s),
    ("more", |run| run.fault.cpu_s - run.calm.cpu_s),
    ("÷", |run| run.fault.cpu_s / run.calm.cpu_s),
];

fn summary(runs: &[Run], method: Method, value: Value) -> Option<Summary> {
    Summary::of(runs.iter().filter(|run| run.method == method).map(value))
}

fn show(arguments: &Arguments, runs: &[Run]) -> Result<(), BenchError> {
    print(&format!(
        "stencil of {0} × {0} cells, {1} iterations, {2} ranks, checkpoints every {3} iterations; a \
         rank is killed after {4:.2} of the run; s, medians and quartiles",
        arguments.size,
        arguments.iterations,
        arguments.ranks,
        arguments.checkpoint_every,
        arguments.at
    ))?;
    let header = ["a fault means"]
        .into_iter()
        .chain(COLUMNS.map(|(name, _)| name));
    let row = |method: Method| {
        let cells = COLUMNS.map(|(_, value)| cell(summary(runs, method, value), 2));
        std::iter::once(method.name().to_owned())
            .chain(cells)
            .collect()
    };
    print(&table(header, Method::ALL.map(row), 0))
}

fn chart(arguments: &Arguments, runs: &[Run]) -> Chart {
    let series = |name: &str, colour, value: Value, offset: f64| {
        Series::new(name, colour, Shape::Bars(BAR), points(runs, value, offset))
    };
    let panel = |title: &str, calm: Value, fault: Value| Panel {
        title: title.into(),
        x_name: "where a job continues after a fault".into(),
        x: Axis::names(["beginning", "common checkpoint", "message logging"]),
        y: Axis::from_zero(runs.iter().flat_map(|run| [calm(run), fault(run)])),
        series: vec![
            series("without a fault", 0, calm, -BAR / 2.0),
            series("with a fault", 1, fault, BAR / 2.0),
        ],
        mark: None,
    };
    Chart {
        title: format!(
            "refrain bench rollback: stencil, {} ranks, a fault after {:.2} of the run",
            arguments.ranks, arguments.at
        ),
        remark: machine::describe(),
        panels: vec![
            panel(
                "wall time, s",
                |run| run.calm.wall_s,
                |run| run.fault.wall_s,
            ),
            panel("CPU time, s", |run| run.calm.cpu_s, |run| run.fault.cpu_s),
        ],
    }
}

fn points(runs: &[Run], value: Value, offset: f64) -> Vec<Point> {
    let at = |(index, method): (usize, &Method)| {
        Some(summary(runs, *method, value)?.at(index as f64 + offset))
    };
    Method::ALL.iter().enumerate().filter_map(at).collect()
}
