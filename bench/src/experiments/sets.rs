//! `refrain bench sets`: what correlated sets cost and save (correlated sets, figure 3 and the
//! memory of its HPL case). A halo exchange takes checkpoints of a few KiB: once with each rank alone,
//! once with all ranks in one set.
//!
//! The time of a checkpoint is that for which its program stops: in a set it has the wait for the other
//! members, too. Ranks that share a core wait for their turns.

use super::jobs::Jobs;
use super::{Common, repeat};
use crate::drawing::axis::Axis;
use crate::drawing::chart::{Chart, Panel, Series, Shape};
use crate::error::BenchError;
use crate::job::Job;
use crate::machine;
use crate::report::{print, table};
use crate::summary::{Summary, cell};
use crate::workload::horizon::checkpoints_file;
use serde::Serialize;

/// What sets cost and save, by their size.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Ranks of the jobs, all in one set or each alone.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', default_value = "2,4,8,16", value_parser = clap::value_parser!(u32).range(2..=64))]
    ranks: Vec<u32>,
    /// Cells along each dimension of the grid.
    #[arg(long, value_name = "CELLS", default_value_t = 64)]
    size: usize,
    /// Number of iterations over all cells.
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Iterations between two checkpoints.
    #[arg(long, value_name = "ITERATIONS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: u64,
    #[command(flatten)]
    #[serde(flatten)]
    common: Common,
}

/// Whether all ranks are in one set.
const BOTH: [bool; 2] = [false, true];

fn name(in_set: bool) -> &'static str {
    match in_set {
        true => "in one set",
        false => "each alone",
    }
}

/// Results of one job.
#[derive(Clone, Debug, Serialize)]
struct Run {
    repetition: u32,
    ranks: u32,
    in_set: bool,
    /// Number of checkpoints of all ranks.
    checkpoints: usize,
    /// Median time of a checkpoint, in ms.
    checkpoint_ms: f64,
    /// Highest use of log memory, over all ranks, in MiB.
    log_peak_mib: f64,
    /// Wall time of the whole job, in seconds.
    wall_s: f64,
}

/// Runs the experiment.
///
/// # Errors
/// When a job fails, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let reporting = &arguments.common.reporting;
    reporting.check()?;
    let jobs = Jobs::new()?;
    let each = arguments.ranks.iter();
    let cases: Vec<_> = each.flat_map(|ranks| BOTH.map(|it| (*ranks, it))).collect();
    let runs = repeat(
        &cases,
        arguments.common.repetitions,
        reporting,
        |(ranks, in_set)| format!("{ranks} ranks, {}", name(in_set)),
        |repetition, (ranks, in_set)| {
            let measured = jobs.run(&job(arguments, ranks, in_set), None)?;
            let files = (0..ranks).map(|rank| jobs.lines(&checkpoints_file(rank)));
            let took: Vec<f64> = files
                .flatten()
                .filter_map(|line| line.parse().ok())
                .collect();
            let checkpoints = took.len();
            let took = Summary::of(took)
                .ok_or_else(|| BenchError::failed("no rank has taken a checkpoint".to_owned()))?;
            Ok(Run {
                repetition,
                ranks,
                in_set,
                checkpoints,
                checkpoint_ms: took.median / 1e3,
                log_peak_mib: measured.log_peak_bytes as f64 / f64::from(1 << 20),
                wall_s: measured.ended.wall_s,
            })
        },
    )?;
    reporting.write("sets", arguments, &runs, || chart(arguments, &runs))?;
    show(arguments, &runs)
}

fn job(arguments: &Arguments, ranks: u32, in_set: bool) -> Job {
    let sets = match in_set {
        true => format!("--sets {ranks}"),
        false => String::new(),
    };
    Job::new(
        ranks,
        &format!(
            "--protocol pessimist --fabric {} {sets}",
            arguments.common.fabric
        ),
        &format!(
            "stencil --size {} --iterations {} --checkpoint-every {} --note-checkpoints RECORD",
            arguments.size, arguments.iterations, arguments.checkpoint_every
        ),
    )
}

type Value = fn(&Run) -> f64;

/// Columns of the table: name, digits, value.
const COLUMNS: [(&str, usize, Value); 4] = [
    ("checkpoints", 0, |run| run.checkpoints as f64),
    ("a checkpoint, ms", 2, |run| run.checkpoint_ms),
    ("log memory at most, MiB", 1, |run| run.log_peak_mib),
    ("whole job, s", 3, |run| run.wall_s),
];

fn summary(runs: &[Run], (ranks, in_set): (u32, bool), value: Value) -> Option<Summary> {
    let these = runs
        .iter()
        .filter(|run| (run.ranks, run.in_set) == (ranks, in_set));
    Summary::of(these.map(value))
}

fn show(arguments: &Arguments, runs: &[Run]) -> Result<(), BenchError> {
    print(&format!(
        "stencil of {0} × {0} cells, {1} iterations, a checkpoint every {2}; medians and quartiles",
        arguments.size, arguments.iterations, arguments.checkpoint_every
    ))?;
    let header = ["ranks", "sets"].into_iter();
    let header = header.chain(COLUMNS.map(|(name, ..)| name));
    let rows = arguments.ranks.iter().flat_map(|ranks| {
        BOTH.map(|in_set| {
            let case = (*ranks, in_set);
            let cells = COLUMNS.map(|(_, digits, value)| cell(summary(runs, case, value), digits));
            let names = [ranks.to_string(), name(in_set).to_owned()];
            names.into_iter().chain(cells).collect()
        })
    });
    print(&table(header, rows, 2))
}

fn chart(arguments: &Arguments, runs: &[Run]) -> Chart {
    let names = arguments
        .ranks
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>();
    let panel = |title: &str, value: Value| Panel {
        title: title.into(),
        x_name: "ranks".into(),
        x: Axis::Names(names.clone()),
        y: Axis::from_zero(runs.iter().map(value)),
        series: BOTH
            .into_iter()
            .enumerate()
            .map(|(index, in_set)| {
                let at = |(place, ranks): (usize, &u32)| {
                    let offset = (index as f64 - 0.5) * 0.4;
                    Some(summary(runs, (*ranks, in_set), value)?.at(place as f64 + offset))
                };
                let points = arguments.ranks.iter().enumerate().filter_map(at);
                Series::new(name(in_set), index, Shape::Bars(0.36), points)
            })
            .collect(),
        mark: None,
    };
    Chart {
        title: format!(
            "refrain bench sets: stencil, a checkpoint every {} of {} iterations",
            arguments.checkpoint_every, arguments.iterations
        ),
        remark: machine::describe(),
        panels: vec![
            panel("a checkpoint, ms", |run| run.checkpoint_ms),
            panel("log memory of a rank at most, MiB", |run| run.log_peak_mib),
        ],
    }
}
