//! `refrain bench faults`: a halo exchange that takes checkpoints, and in which ranks
//! are killed. How much longer does it take? (MPICH-V2, figure 11.)
//!
//! Moments and ranks are random, from a seed, anywhere in the time that a run without
//! faults takes: also during a checkpoint or a recovery. A signal that finds its rank
//! dead already kills nobody; so deaths are counted, too.

mod show;

use super::jobs::{Job, Jobs};
use super::report::{Progress, Reporting, status};
use super::{ExperimentError, milliseconds, rotated};
use crate::workload::prng::{Prng, combine};
use serde::Serialize;
use std::process::ExitCode;

/// Runs with more and more faults.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Ranks of the job
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: u32,
    /// Maximum number of faults per run
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    faults: u32,
    /// Cells along each dimension of the grid
    #[arg(long, value_name = "CELLS", default_value_t = 1024)]
    size: usize,
    /// Number of iterations over all cells
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Iterations between two checkpoints of a rank; 0: no checkpoints
    #[arg(long, value_name = "ITERATIONS", default_value_t = 50)]
    checkpoint_every: u64,
    /// Number of measurements
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Seed of the random times and ranks
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fabric of messages
    #[arg(long, default_value = "auto")]
    fabric: String,
    #[command(flatten)]
    #[serde(skip)]
    reporting: Reporting,
}

/// One job.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    repetition: u32,
    /// So many signals were to kill a rank.
    faults: u32,
    /// So many did.
    deaths: usize,
    /// The whole job.
    wall_s: f64,
    /// Of the run without faults of the same repetition.
    relative: f64,
    /// From seeing the death until the next life goes on, in the mean.
    recovery_ms: Option<f64>,
    /// The part of it in which messages are played again.
    replay_ms: Option<f64>,
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
    let repetitions = arguments.repetitions as usize;
    let count = (arguments.faults as usize + 1) * repetitions;
    let progress = Progress::new(count + 1, arguments.reporting.quiet);
    progress.begin("without faults".into());
    // What it prints, and about how long it takes.
    let calm = jobs.run(&job(arguments, &[]), None)?;
    progress.step();
    let mut runs = Vec::new();
    for repetition in 0..arguments.repetitions {
        let mut these = Vec::new();
        for faults in rotated(arguments.faults as usize + 1, repetition as usize) {
            let faults = faults as u32;
            progress.begin(format!("{faults} faults"));
            let seed = combine(&[arguments.seed, u64::from(repetition), u64::from(faults)]);
            let kills = kills(seed, faults, arguments.ranks, calm.wall_s);
            let ended = jobs.run(&job(arguments, &kills), Some(&calm.out))?;
            these.push(Run {
                repetition,
                faults,
                deaths: ended.recoveries.len(),
                wall_s: ended.wall_s,
                relative: f64::NAN,
                recovery_ms: mean(ended.recoveries.iter().filter_map(|it| it.total_us)),
                replay_ms: mean(
                    (ended.recoveries.iter()).filter_map(|it| Some(it.figures.as_ref()?.replay_us)),
                ),
            });
            progress.step();
        }
        relate(&mut these);
        these.sort_by_key(|run| run.faults);
        runs.extend(these);
    }
    drop(progress);
    let reporting = &arguments.reporting;
    reporting.write_json("faults", arguments, &runs)?;
    reporting.write_svg(|| show::chart(arguments, &runs))?;
    show::table(arguments, &runs)
}

/// To the run without faults among them.
fn relate(runs: &mut [Run]) {
    let calm = runs.iter().find(|run| run.faults == 0);
    let calm_s = calm.map_or(f64::NAN, |run| run.wall_s);
    for run in runs {
        run.relative = run.wall_s / calm_s;
    }
}

/// In milliseconds, from microseconds.
fn mean(times_us: impl Iterator<Item = u64>) -> Option<f64> {
    let times: Vec<u64> = times_us.collect();
    let sum: u64 = times.iter().sum();
    (!times.is_empty()).then(|| milliseconds(sum) / times.len() as f64)
}

/// Random ranks at random moments, in their order.
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
        arguments.fabric
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
