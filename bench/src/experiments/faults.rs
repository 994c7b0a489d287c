//! `refrain bench faults`: the additional run time of a halo exchange with checkpoints whose ranks
//! are killed (MPICH-V2, figure 11).
//!
//! Times and ranks are random, from a seed, within the run time of a job without faults; they may
//! hit a checkpoint or a recovery. A signal to a dead rank has no effect, so deaths are counted,
//! too.

use super::jobs::Jobs;
use super::{Common, milliseconds, repeat};
use crate::drawing::axis::Axis;
use crate::drawing::chart::{Chart, Panel, Series, Shape};
use crate::error::BenchError;
use crate::job::Job;
use crate::machine;
use crate::report::{print, table};
use crate::summary::{Summary, cell};
use crate::workload::prng::{Prng, combine};
use serde::Serialize;

/// Target: relative run time with 9 faults, at most.
const TARGET: f64 = 1.5;

/// Runs with an increasing number of faults.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Ranks of the job.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: u32,
    /// Maximum number of faults per run.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    faults: u32,
    /// Cells along each dimension of the grid.
    #[arg(long, value_name = "CELLS", default_value_t = 1024)]
    size: usize,
    /// Number of iterations over all cells.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Iterations between two checkpoints of a rank; 0: no checkpoints.
    #[arg(long, value_name = "ITERATIONS", default_value_t = 50)]
    checkpoint_every: u64,
    /// Seed of the random times and ranks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    #[serde(flatten)]
    common: Common,
}

/// Results of one job.
#[derive(Clone, Debug, Serialize)]
struct Run {
    repetition: u32,
    /// Number of signals sent.
    faults: u32,
    /// Number of ranks that died.
    deaths: usize,
    /// Wall time of the whole job, in seconds.
    wall_s: f64,
    /// Wall time relative to the run without faults of the same repetition.
    relative: f64,
    /// Mean time from the detection of a death until the end of the replay, in ms.
    recovery_ms: Option<f64>,
    /// The part of it that is replay, in ms.
    replay_ms: Option<f64>,
}

/// Runs the experiment.
///
/// # Errors
/// When a job fails, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let reporting = &arguments.common.reporting;
    reporting.check()?;
    let jobs = Jobs::new()?;
    // A calm run gives the expected output and the approximate duration.
    let calm = jobs.run(&job(arguments, &[]), None)?.ended;
    let cases: Vec<u32> = (0..=arguments.faults).collect();
    let name = |faults| format!("{faults} faults");
    let mut runs = repeat(
        &cases,
        arguments.common.repetitions,
        reporting,
        name,
        |repetition, faults| {
            let seed = combine(&[arguments.seed, u64::from(repetition), u64::from(faults)]);
            let kills = kills(seed, faults, arguments.ranks, calm.wall_s);
            let measured = jobs.run(&job(arguments, &kills), Some(&calm.out))?;
            let recoveries = measured.recoveries.iter();
            Ok(Run {
                repetition,
                faults,
                deaths: recoveries.len(),
                wall_s: measured.ended.wall_s,
                relative: f64::NAN,
                recovery_ms: mean(recoveries.clone().filter_map(|it| it.total_us)),
                replay_ms: mean(recoveries.filter_map(|it| Some(it.figures.as_ref()?.replay_us))),
            })
        },
    )?;
    runs.sort_by_key(|run| (run.repetition, run.faults));
    runs.chunk_by_mut(|a, b| a.repetition == b.repetition)
        .for_each(relate);
    reporting.write("faults", arguments, &runs, || chart(arguments, &runs))?;
    show(arguments, &runs)
}

/// Sets the relative times, by the run without faults in `runs`.
fn relate(runs: &mut [Run]) {
    let calm = runs.iter().find(|run| run.faults == 0);
    let calm_s = calm.map_or(f64::NAN, |run| run.wall_s);
    for run in runs {
        run.relative = run.wall_s / calm_s;
    }
}

/// Mean in milliseconds, of times in microseconds.
fn mean(times_us: impl Iterator<Item = u64>) -> Option<f64> {
    let times: Vec<u64> = times_us.collect();
    let sum: u64 = times.iter().sum();
    (!times.is_empty()).then(|| milliseconds(sum) / times.len() as f64)
}

/// Random ranks at random times, ordered by time.
fn kills(seed: u64, faults: u32, ranks: u32, seconds: f64) -> Vec<String> {
    let mut prng = Prng::new(seed);
    let mut kills: Vec<(usize, usize)> = (0..faults)
        .map(|_| (prng.below(10_000), prng.below(ranks as usize)))
        .collect();
    kills.sort_unstable();
    let text = |(moment, rank)| format!("{rank}@{:.4}", seconds * moment as f64 / 1e4);
    kills.into_iter().map(text).collect()
}

fn job(arguments: &Arguments, kills: &[String]) -> Job {
    let mut options = format!(
        "--protocol pessimist --fabric {} --max-restarts 100000",
        arguments.common.fabric
    );
    if !kills.is_empty() {
        options += &format!(" --kill {}", kills.join(","));
    }
    Job::new(
        arguments.ranks,
        &options,
        &format!(
            "stencil --size {} --iterations {} --checkpoint-every {}",
            arguments.size, arguments.iterations, arguments.checkpoint_every
        ),
    )
}

type Value = fn(&Run) -> Option<f64>;

/// Columns of the table: name, digits, value.
const COLUMNS: [(&str, usize, Value); 5] = [
    ("deaths", 0, |run| Some(run.deaths as f64)),
    ("whole job, s", 3, |run| Some(run.wall_s)),
    ("÷ no faults", 3, |run| Some(run.relative)),
    ("a recovery, ms", 1, |run| run.recovery_ms),
    ("of it replay, ms", 1, |run| run.replay_ms),
];

fn summary(runs: &[Run], faults: u32, value: Value) -> Option<Summary> {
    let these = runs.iter().filter(|run| run.faults == faults);
    Summary::of(these.filter_map(value))
}

fn show(arguments: &Arguments, runs: &[Run]) -> Result<(), BenchError> {
    print(&format!(
        "stencil of {0} × {0} cells, {1} iterations, {2} ranks, a checkpoint every {3} iterations; \
         medians and quartiles",
        arguments.size, arguments.iterations, arguments.ranks, arguments.checkpoint_every
    ))?;
    let header = ["faults"].into_iter().chain(COLUMNS.map(|(name, ..)| name));
    let row = |faults: u32| {
        let cells = COLUMNS.map(|(_, digits, value)| cell(summary(runs, faults, value), digits));
        std::iter::once(faults.to_string()).chain(cells).collect()
    };
    print(&table(header, (0..=arguments.faults).map(row), 0))
}

fn chart(arguments: &Arguments, runs: &[Run]) -> Chart {
    let panel = |title: &str, target: Option<f64>, value: Value| Panel {
        title: title.into(),
        x_name: "faults in a run".into(),
        x: Axis::Counts(arguments.faults),
        y: Axis::from_zero(runs.iter().filter_map(value).chain(target)),
        series: vec![Series::new(
            "median and quartiles",
            0,
            Shape::Line,
            (0..=arguments.faults)
                .filter_map(|faults| Some(summary(runs, faults, value)?.at(f64::from(faults)))),
        )],
        mark: target,
    };
    Chart {
        title: format!(
            "refrain bench faults: stencil, {} ranks, checkpoints every {} of {} iterations",
            arguments.ranks, arguments.checkpoint_every, arguments.iterations
        ),
        remark: machine::describe(),
        panels: vec![
            panel("whole job, ÷ no faults", Some(TARGET), |run| {
                Some(run.relative)
            }),
            panel("one recovery, ms", None, |run| run.recovery_ms),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_those_of_their_seed_within_the_run() {
        let kills_of = |seed| kills(seed, 9, 3, 2.0);
        assert_eq!(kills_of(5), kills_of(5));
        assert_ne!(kills_of(5), kills_of(6));
        let parsed: Vec<(u32, f64)> = kills_of(5)
            .iter()
            .map(|kill| {
                let (rank, seconds) = kill.split_once('@').unwrap();
                (rank.parse().unwrap(), seconds.parse().unwrap())
            })
            .collect();
        assert_eq!(parsed.len(), 9);
        assert!(
            parsed
                .iter()
                .all(|(rank, at)| *rank < 3 && (0.0..2.0).contains(at))
        );
        assert!(parsed.is_sorted_by(|a, b| a.1 <= b.1));
        assert!(kills(5, 0, 3, 2.0).is_empty());
    }

    #[test]
    fn runs_are_compared_with_that_without_faults() {
        let run = |faults, wall_s| Run {
            repetition: 0,
            faults,
            deaths: 0,
            wall_s,
            relative: 0.0,
            recovery_ms: None,
            replay_ms: None,
        };
        let mut runs = [run(2, 3.0), run(0, 2.0), run(1, 2.5)];
        relate(&mut runs);
        assert_eq!(runs.map(|run| run.relative), [1.5, 1.0, 1.25]);
    }
}
