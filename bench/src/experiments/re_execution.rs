//! `refrain bench re-execution`: tokens go round a ring of ranks; at the end some ranks are killed
//! and replay everything from the beginning. Compares the time of the replay with that of the
//! first run (MPICH-V2, figure 10).
//!
//! Both times are those of the turns alone, by the clock of the rank itself; the time of a later
//! life begins when it has met the other ranks. Of several ranks the slowest counts. The ratio is
//! taken within each job.

use super::jobs::{Jobs, Measured};
use super::{Common, repeat};
use crate::drawing::axis::{Axis, LogAxis};
use crate::drawing::chart::{Chart, Panel, Point, Series, Shape};
use crate::error::BenchError;
use crate::job::Job;
use crate::machine;
use crate::report::{format_size, print, table};
use crate::summary::{Summary, cell};
use crate::workload::ring::Turns;
use serde::Serialize;

/// Target: speed of replay relative to the first run; approximately the result of the paper.
const TARGET: f64 = 2.0;
/// Maximum number of ranks.
const RANKS_MAX: u32 = 16;
/// Log memory in addition to the messages: headers, and other content of the log.
const LOG_ROOM_BYTES: u64 = 64 << 20;
const HEADER_BYTES: u64 = 64;

/// Parameters of ranks that replay everything.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Ranks of the ring, of which 0 to N replay.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=i64::from(RANKS_MAX)))]
    ranks: u32,
    /// Number of tokens in the ring.
    #[arg(long, value_name = "K", default_value_t = 1)]
    tokens: u32,
    /// Token lengths of at least 16 bytes, separated by commas.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = refrain_launch::size::parse,
          default_value = "64,1K,4K,16K,64K,256K,1M")]
    sizes: Vec<u64>,
    /// Length of the tokens of rank 0, which replays first and is then receive-bound.
    #[arg(long, value_name = "SIZE", value_parser = refrain_launch::size::parse)]
    answers: Option<u64>,
    /// Receive from any source, so that each receive is a logged event.
    #[arg(long)]
    any: bool,
    /// Maximum number of bytes that a rank sends.
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = refrain_launch::size::parse)]
    volume: u64,
    /// Maximum number of tokens that a rank sends.
    #[arg(long, value_name = "TURNS", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    turns: u64,
    #[command(flatten)]
    #[serde(flatten)]
    common: Common,
}

/// Results of one job.
#[derive(Clone, Debug, Serialize)]
struct Run {
    repetition: u32,
    bytes: u64,
    turns: u64,
    /// Number of ranks that replayed.
    again: u32,
    /// Time of the turns of the first lives, in seconds.
    first_s: f64,
    /// Time of the turns of the later lives, in seconds.
    again_s: Option<f64>,
    /// Time from the detection of a death until the first message arrived again, in seconds; of
    /// the slowest rank.
    restart_s: Option<f64>,
    /// Wall time of the whole job, in seconds.
    wall_s: f64,
}

impl Run {
    /// Speed of the replay relative to the first run.
    fn speed_up(&self) -> Option<f64> {
        Some(self.first_s / self.again_s?)
    }
}

/// Runs the experiment.
///
/// # Errors
/// When a job fails, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let reporting = &arguments.common.reporting;
    check(arguments)?;
    reporting.check()?;
    let jobs = Jobs::new()?;
    let cases: Vec<(u64, u32)> = (arguments.sizes.iter())
        .flat_map(|bytes| (0..=arguments.ranks).map(move |again| (*bytes, again)))
        .collect();
    let name = |(bytes, again)| format!("{}, {again} again", format_size(bytes));
    let runs = repeat(
        &cases,
        arguments.common.repetitions,
        reporting,
        name,
        |repetition, case| one(arguments, &jobs, repetition, case),
    )?;
    reporting.write("re-execution", arguments, &runs, || chart(arguments, &runs))?;
    show(arguments, &runs)
}

fn check(arguments: &Arguments) -> Result<(), BenchError> {
    let (option, problem, help) = if !(1..=arguments.ranks).contains(&arguments.tokens) {
        let problem = format!("{} tokens for {} ranks", arguments.tokens, arguments.ranks);
        (
            "--tokens",
            problem,
            "give at least one, and at most one per rank",
        )
    } else if let Some(bytes) =
        (arguments.sizes.iter().chain(&arguments.answers)).find(|it| **it < 16)
    {
        let problem = format!("{bytes} bytes hold no token");
        ("--sizes, --answers", problem, "give 16 bytes or more")
    } else if let Some(bytes) = (arguments.sizes.iter()).find(|it| **it > arguments.volume) {
        let problem = format!("not one token of {} fits", format_size(*bytes));
        (
            "--volume",
            problem,
            "give at least the length of the largest token",
        )
    } else {
        return Ok(());
    };
    Err(BenchError::option(option, problem, help))
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
            arguments.common.fabric
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
    (bytes, again): (u64, u32),
) -> Result<Run, BenchError> {
    let turns = turns(arguments, bytes);
    let line = format!(
        "ring: turns {turns} tokens {} bytes {bytes}\n",
        arguments.tokens
    );
    let measured = jobs.run(&job(arguments, bytes, again), Some(&line))?;
    let slowest = |ranks: u32, incarnation: u32| {
        let mut slowest = 0.0;
        for rank in 0..ranks {
            let noted: Turns = jobs.noted(&format!("{rank}.{incarnation}"))?;
            slowest = f64::max(slowest, noted.seconds);
        }
        Ok::<f64, BenchError>(slowest)
    };
    let again_s = (again > 0).then(|| slowest(again, 1)).transpose()?;
    Ok(Run {
        repetition,
        bytes,
        turns,
        again,
        first_s: slowest(arguments.ranks, 0)?,
        again_s,
        restart_s: restart_s(&measured),
        wall_s: measured.ended.wall_s,
    })
}

fn restart_s(measured: &Measured) -> Option<f64> {
    let times = measured.recoveries.iter().filter_map(|recovery| {
        let first_message_us = recovery.figures.as_ref()?.first_message_us?;
        Some((recovery.started_us + first_message_us) as f64 / 1e6)
    });
    times.reduce(f64::max)
}

type Value = fn(&Run) -> Option<f64>;

fn summary(runs: &[Run], bytes: u64, again: u32, value: Value) -> Option<Summary> {
    let these = runs
        .iter()
        .filter(|run| (run.bytes, run.again) == (bytes, again));
    Summary::of(these.filter_map(value))
}

/// The time of one turn, in µs.
fn per_turn(run: &Run) -> Option<f64> {
    let seconds = match run.again {
        0 => run.first_s,
        _ => run.again_s?,
    };
    Some(seconds / run.turns as f64 * 1e6)
}

fn name(again: u32) -> String {
    match again {
        0 => "first time".into(),
        again => format!("{again} again"),
    }
}

fn show(arguments: &Arguments, runs: &[Run]) -> Result<(), BenchError> {
    let receive = if arguments.any { "any" } else { "named" };
    let answers = arguments.answers.map(format_size);
    let answers = answers.map_or(String::new(), |size| format!(", rank 0 sends {size}"));
    print(&format!(
        "ring of {} ranks, {} at once, {receive} receive{answers}; µs a turn, and ×: how many times as fast \
         as the first time, within each job (quartiles)",
        arguments.ranks, arguments.tokens
    ))?;
    let mut header = vec!["bytes".to_owned(), "turns".into(), name(0)];
    header.extend((1..=arguments.ranks).flat_map(|again| [name(again), "×".into()]));
    let row = |&bytes: &u64| {
        let text = |again, value| cell(summary(runs, bytes, again, value), 2);
        let turns = turns(arguments, bytes).to_string();
        let mut row = vec![format_size(bytes), turns, text(0, per_turn)];
        row.extend(
            (1..=arguments.ranks)
                .flat_map(|again| [text(again, per_turn), text(again, Run::speed_up)]),
        );
        row
    };
    print(&table(header, arguments.sizes.iter().map(row), 0))?;
    print("\nwhole jobs, s, and ms from the sight of a death until the first message came again")?;
    let mut header = vec!["bytes".to_owned()];
    header.extend((0..=arguments.ranks).map(name));
    header.push("restart, ms".into());
    let row = |&bytes: &u64| {
        let wall = |again| cell(summary(runs, bytes, again, |run| Some(run.wall_s)), 3);
        let mut row = vec![format_size(bytes)];
        row.extend((0..=arguments.ranks).map(wall));
        let these = runs.iter().filter(|run| run.bytes == bytes);
        let restarts = these.filter_map(|run| Some(run.restart_s? * 1e3));
        row.push(cell(Summary::of(restarts), 1));
        row
    };
    print(&table(header, arguments.sizes.iter().map(row), 0))
}

fn chart(arguments: &Arguments, runs: &[Run]) -> Chart {
    let logarithmic = |axis: Option<LogAxis>, kind: fn(LogAxis) -> Axis| {
        axis.map_or(Axis::Linear(0.0, 1.0), kind)
    };
    let sizes = LogAxis::sizes(arguments.sizes.iter().map(|bytes| *bytes as f64));
    let sizes = logarithmic(sizes, Axis::Sizes);
    let panel = |title: &str, mark: Option<f64>, first: u32, value: Value| {
        let values = runs.iter().filter_map(value).chain(mark);
        Panel {
            title: title.into(),
            x_name: "bytes per token".into(),
            x: sizes.clone(),
            y: logarithmic(LogAxis::decades(values), Axis::Decades),
            series: (first..=arguments.ranks)
                .map(|again| {
                    let points = points(arguments, runs, again, value);
                    Series::new(name(again), again as usize, Shape::Line, points)
                })
                .collect(),
            mark,
        }
    };
    let speed = "how many times as fast the second time was";
    Chart {
        title: format!(
            "refrain bench re-execution: ring of {} ranks, {} at once",
            arguments.ranks,
            match arguments.tokens {
                1 => "1 token".into(),
                tokens => format!("{tokens} tokens"),
            }
        ),
        remark: machine::describe(),
        panels: vec![
            panel(
                "time of one turn, median and quartiles, µs",
                None,
                0,
                per_turn,
            ),
            panel(speed, Some(TARGET), 1, Run::speed_up),
        ],
    }
}

fn points(arguments: &Arguments, runs: &[Run], again: u32, value: Value) -> Vec<Point> {
    let mut sizes = arguments.sizes.clone();
    sizes.sort_unstable();
    let at = |bytes: &u64| Some(summary(runs, *bytes, again, value)?.at(*bytes as f64));
    sizes.iter().filter_map(at).collect()
}
