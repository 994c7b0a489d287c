//! `refrain bench re-execution`: tokens go round a ring of ranks; when all is done
//! some of them are killed and play everything again, from the beginning. How long
//! does that take, and how long did it take the first time? (MPICH-V2, figure 10.)
//!
//! Both times are those of the turns alone, by the clock of the rank itself: the
//! later life's begin when it has met the others. Of several ranks the slowest
//! counts. The ratio is taken within each job.

mod show;

use super::jobs::{Ended, Job, Jobs};
use super::report::{Progress, Reporting, status};
use super::{ExperimentError, rotated};
use crate::netpipe::format_size;
use crate::workload::ring::Turns;
use serde::Serialize;
use std::process::ExitCode;

/// More are too many for one host's figure.
const RANKS_MAX: u32 = 16;
/// Beside its messages a log has headers, and what is kept of the job.
const LOG_ROOM_BYTES: u64 = 64 << 20;
const HEADER_BYTES: u64 = 64;

/// Ranks that play everything again.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Ranks of the ring, of which 0 to N replay
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=i64::from(RANKS_MAX)))]
    ranks: u32,
    /// Number of tokens in the ring
    #[arg(long, value_name = "K", default_value_t = 1)]
    tokens: u32,
    /// Token lengths of at least 16 bytes, separated by commas
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = refrain_launch::size::parse,
          default_value = "64,1K,4K,16K,64K,256K,1M")]
    sizes: Vec<u64>,
    /// Token length that rank 0 sends, which replays first and is then receive-bound
    #[arg(long, value_name = "SIZE", value_parser = refrain_launch::size::parse)]
    answers: Option<u64>,
    /// Receive from any source, so that each receive is a logged event
    #[arg(long)]
    any: bool,
    /// Maximum number of bytes that a rank sends
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = refrain_launch::size::parse)]
    volume: u64,
    /// Maximum number of tokens that a rank sends
    #[arg(long, value_name = "TURNS", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    turns: u64,
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

/// One job.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    repetition: u32,
    bytes: u64,
    turns: u64,
    /// So many ranks played again.
    again: u32,
    /// The turns of the first lives.
    first_s: f64,
    /// Those of the later ones.
    again_s: Option<f64>,
    /// From a launcher's seeing a death until the turns begin again, of the slowest.
    restart_s: Option<f64>,
    /// The whole job.
    wall_s: f64,
}

impl Run {
    /// How many times as fast the second time was.
    fn speed_up(&self) -> Option<f64> {
        Some(self.first_s / self.again_s?)
    }
}

/// Runs the experiment.
///
/// # Errors
/// When it cannot be done, or a job does not do what it must.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    status(measure(arguments))
}

fn measure(arguments: &Arguments) -> Result<(), ExperimentError> {
    check(arguments)?;
    arguments.reporting.check()?;
    let jobs = Jobs::new()?;
    let plan: Vec<(u64, u32)> = (arguments.sizes.iter())
        .flat_map(|bytes| (0..=arguments.ranks).map(move |again| (*bytes, again)))
        .collect();
    let count = plan.len() * arguments.repetitions as usize;
    let progress = Progress::new(count, arguments.reporting.quiet);
    let mut runs = Vec::new();
    for repetition in 0..arguments.repetitions {
        for index in rotated(plan.len(), repetition as usize) {
            let (bytes, again) = plan[index];
            progress.begin(format!("{}, {again} again", format_size(bytes)));
            runs.push(one(arguments, &jobs, repetition, bytes, again)?);
            progress.step();
        }
    }
    drop(progress);
    let reporting = &arguments.reporting;
    reporting.write_json("re-execution", arguments, &runs)?;
    reporting.write_svg(|| show::chart(arguments, &runs))?;
    show::tables(arguments, &runs)
}

fn check(arguments: &Arguments) -> Result<(), ExperimentError> {
    let (option, problem, help) = if !(1..=arguments.ranks).contains(&arguments.tokens) {
        let problem = format!("{} tokens for {} ranks", arguments.tokens, arguments.ranks);
        ("--tokens", problem, "at least one, and at most one a rank")
    } else if let Some(bytes) =
        (arguments.sizes.iter().chain(&arguments.answers)).find(|it| **it < 16)
    {
        let problem = format!("{bytes} bytes hold no token");
        ("--sizes, --answers", problem, "16 bytes or more")
    } else if let Some(bytes) = (arguments.sizes.iter()).find(|it| **it > arguments.volume) {
        let problem = format!("not one token of {} fits", format_size(*bytes));
        ("--volume", problem, "give as much as the largest token has")
    } else {
        return Ok(());
    };
    Err(ExperimentError::Option {
        option,
        problem,
        help: help.into(),
    })
}

fn turns(arguments: &Arguments, bytes: u64) -> u64 {
    (arguments.volume / bytes).clamp(1, arguments.turns)
}

fn job(arguments: &Arguments, bytes: u64, again: u32) -> Job {
    let turns = turns(arguments, bytes);
    let longest = bytes.max(arguments.answers.unwrap_or(0));
    let log_bytes = turns * (longest + HEADER_BYTES) + LOG_ROOM_BYTES;
    let answers = arguments.answers.map(|bytes| format!("--answers {bytes}"));
    let answers = answers.unwrap_or_default();
    let any = if arguments.any { "--any" } else { "" };
    Job::new(
        arguments.ranks,
        &format!(
            "--protocol pessimist --fabric {} --log-memory {log_bytes} --max-restarts 16",
            arguments.fabric
        ),
        &format!(
            "ring --turns {turns} --bytes {bytes} --tokens {} --again {again} {any} {answers} --record RECORD",
            arguments.tokens
        ),
    )
}

fn one(
    arguments: &Arguments,
    jobs: &Jobs,
    repetition: u32,
    bytes: u64,
    again: u32,
) -> Result<Run, ExperimentError> {
    let turns = turns(arguments, bytes);
    let line = format!(
        "ring: turns {turns} tokens {} bytes {bytes}\n",
        arguments.tokens
    );
    let ended = jobs.run(&job(arguments, bytes, again), Some(&line))?;
    let slowest = |ranks: u32, incarnation: u32| {
        let mut slowest = 0.0;
        for rank in 0..ranks {
            let noted: Turns = jobs.noted(&format!("{rank}.{incarnation}"))?;
            slowest = f64::max(slowest, noted.seconds);
        }
        Ok::<f64, ExperimentError>(slowest)
    };
    let again_s = (again > 0).then(|| slowest(again, 1)).transpose()?;
    Ok(Run {
        repetition,
        bytes,
        turns,
        again,
        first_s: slowest(arguments.ranks, 0)?,
        again_s,
        restart_s: restart_s(&ended),
        wall_s: ended.wall_s,
    })
}

fn restart_s(ended: &Ended) -> Option<f64> {
    let times = ended.recoveries.iter().filter_map(|recovery| {
        let first_message_us = recovery.figures.as_ref()?.first_message_us?;
        Some((recovery.started_us + first_message_us) as f64 / 1e6)
    });
    times.reduce(f64::max)
}
