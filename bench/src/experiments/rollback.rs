//! `refrain bench rollback`: a rank of a halo exchange is killed. Compares the cost of restarting
//! that rank, with each protocol, with that of restarting all ranks (user-level message logging,
//! table 2).
//!
//! | method | without a fault | with one |
//! |---|---|---|
//! | `beginning` | protocol `none`, no checkpoints | the death ends the job, which is run again |
//! | `coordinated` | protocol `none`; all ranks write checkpoints together | the death ends the
//! job; the second run begins with the last common checkpoint |
//! | `logging` | each protocol; each rank takes its own checkpoints, as often | one job; the launcher restarts the rank, or its set |
//!
//! Both kinds of checkpoints hold the same cells, and are durable. Times are those of whole jobs
//! with their launchers; of both jobs if there are two. The phases of a recovery are those that the
//! launcher and the next life report.

use super::jobs::{Jobs, Measured};
use super::{Common, milliseconds, repeat};
use crate::drawing::axis::Axis;
use crate::drawing::chart::{Chart, Panel, Series, Shape};
use crate::error::BenchError;
use crate::job::Job;
use crate::machine;
use crate::report::{print, table};
use crate::summary::{Summary, cell};
use refrain_launch::Recovery;
use refrain_logging::Member;
use serde::Serialize;

/// The ranks are one correlated set.
const IN_ONE_SET: &str = "pessimist+set";
/// Width of all bars of one name, of 1.
const BARS: f64 = 0.84;
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
    /// Protocols that restart one rank, to compare; all: each that logs messages; pessimist+set: all
    /// ranks are one correlated set, and are restarted together.
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = "pessimist,ticket,causal,pessimist+set"
    )]
    protocol: Vec<String>,
    /// Receive from any source, so that each receive is a logged event.
    #[arg(long)]
    any: bool,
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
#[serde(tag = "way", content = "protocol", rename_all = "kebab-case")]
enum Method {
    Beginning,
    Coordinated,
    /// Message logging, with this protocol.
    Logging(&'static str),
}

impl Method {
    /// All methods, with these protocols.
    ///
    /// # Errors
    /// A name is of no protocol that logs messages, or is given twice.
    fn all(protocols: &[String]) -> Result<Vec<Self>, BenchError> {
        let logging = Member::ALL.into_iter().filter(|it| it.keeps_payload());
        let names = logging.map(Member::name).chain([IN_ONE_SET]);
        let names: Vec<&'static str> = names.collect();
        let mut methods = vec![Self::Beginning, Self::Coordinated];
        if protocols == ["all"] {
            methods.extend(names.into_iter().map(Self::Logging));
            return Ok(methods);
        }
        for protocol in protocols {
            let known = names.iter().find(|name| *name == protocol);
            let method = known.copied().map(Self::Logging);
            match method.filter(|method| !methods.contains(method)) {
                Some(method) => methods.push(method),
                None => {
                    let problem = format!("`{protocol}` logs no messages, or is given twice");
                    let help = format!("choose of {}, or all", names.join(", "));
                    return Err(BenchError::option("--protocol", problem, help));
                }
            }
        }
        Ok(methods)
    }

    fn name(self) -> String {
        match self {
            Self::Beginning => "all again, from the beginning".into(),
            Self::Coordinated => "all again, from a common checkpoint".into(),
            Self::Logging(IN_ONE_SET) => "one set again, pessimist".into(),
            Self::Logging(protocol) => format!("one again, {protocol}"),
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
            Self::Logging(protocol) => (protocol, format!("--checkpoint-every {every}")),
        };
        let sets = match self {
            Self::Logging(IN_ONE_SET) => format!("--sets {}", arguments.ranks),
            _ => String::new(),
        };
        let protocol = protocol.trim_end_matches("+set");
        let any = if arguments.any { "--any" } else { "" };
        Job::new(
            arguments.ranks,
            &format!(
                "--protocol {protocol} --fabric {} {sets} {kill}",
                arguments.common.fabric
            ),
            &format!(
                "stencil --size {} --iterations {} {any} {checkpoints}",
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
    #[serde(flatten)]
    method: Method,
    calm: Taken,
    fault: Taken,
    /// The recovery, as the launcher reports it, if one rank was restarted.
    recovery: Option<Recovery>,
}

/// Runs the experiment.
///
/// # Errors
/// When a job fails, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let methods = Method::all(&arguments.protocol)?;
    let reporting = &arguments.common.reporting;
    reporting.check()?;
    let jobs = Jobs::new()?;
    let mut line = None;
    let runs = repeat(
        &methods,
        arguments.common.repetitions,
        reporting,
        Method::name,
        |repetition, method| {
            jobs.forget()?;
            let calm = jobs.run(&method.job(arguments, ""), line.as_deref())?;
            let after_s = calm.ended.wall_s * arguments.at;
            let line = line.get_or_insert_with(|| calm.ended.out.clone());
            let (fault, recovery) = with_a_fault(arguments, &jobs, method, after_s, line)?;
            Ok(Run {
                repetition,
                method,
                calm: Taken::of(&[&calm]),
                fault,
                recovery,
            })
        },
    )?;
    let chart = || chart(arguments, &methods, &runs);
    reporting.write("rollback", arguments, &runs, chart)?;
    show(arguments, &methods, &runs)
}

fn with_a_fault(
    arguments: &Arguments,
    jobs: &Jobs,
    method: Method,
    mut after_s: f64,
    line: &str,
) -> Result<(Taken, Option<Recovery>), BenchError> {
    for _ in 0..TRIES {
        let kill = format!("--kill {}@{after_s:.4}", arguments.ranks - 1);
        let job = method.job(arguments, &kill);
        jobs.forget()?;
        if let Method::Logging(_) = method {
            let measured = jobs.run(&job, Some(line))?;
            if let Some(recovery) = measured.recoveries.first() {
                return Ok((Taken::of(&[&measured]), Some(recovery.clone())));
            }
            // It was faster than the job before it.
            after_s = measured.ended.wall_s * arguments.at;
            continue;
        }
        let died = jobs.end(&job)?;
        if died.ended.status == Some(STATUS_KILLED) {
            let second = jobs.run(&method.job(arguments, ""), Some(line))?;
            return Ok((Taken::of(&[&died, &second]), None));
        }
        died.expect(&job, Some(line))?;
        after_s = died.ended.wall_s * arguments.at;
    }
    Err(BenchError::option(
        "--at",
        format!("{TRIES} times the job had ended before the rank was to be killed"),
        "give a smaller part, or --iterations for longer jobs",
    ))
}

type Value = fn(&Run) -> Option<f64>;

/// Columns of the table of all methods: name, value.
const COLUMNS: [(&str, Value); 8] = [
    ("without, wall", |run| Some(run.calm.wall_s)),
    ("with one", |run| Some(run.fault.wall_s)),
    ("more", |run| Some(run.fault.wall_s - run.calm.wall_s)),
    ("÷", |run| Some(run.fault.wall_s / run.calm.wall_s)),
    ("without, CPU", |run| Some(run.calm.cpu_s)),
    ("with one", |run| Some(run.fault.cpu_s)),
    ("more", |run| Some(run.fault.cpu_s - run.calm.cpu_s)),
    ("÷", |run| Some(run.fault.cpu_s / run.calm.cpu_s)),
];

/// A value of a recovery: in the table and its digits there, in the drawing, and the value.
type Figure = (&'static str, usize, Option<&'static str>, Value);

/// What is measured of the restart of one rank.
const FIGURES: [Figure; 7] = [
    ("started, ms", 1, Some("started"), |run| {
        Some(milliseconds(run.recovery.as_ref()?.started_us))
    }),
    ("events collected", 1, Some("collected"), |run| {
        Some(milliseconds(
            run.recovery.as_ref()?.figures.as_ref()?.collect_us,
        ))
    }),
    ("first message", 1, Some("message"), |run| {
        let figures = run.recovery.as_ref()?.figures.as_ref()?;
        Some(milliseconds(figures.first_message_us?))
    }),
    ("replayed", 1, Some("replay"), |run| {
        Some(milliseconds(
            run.recovery.as_ref()?.figures.as_ref()?.replay_us,
        ))
    }),
    ("in all", 1, Some("in all"), |run| {
        Some(milliseconds(run.recovery.as_ref()?.total_us?))
    }),
    ("events", 0, None, |run| {
        Some(run.recovery.as_ref()?.figures.as_ref()?.events as f64)
    }),
    ("replay an event, µs", 1, None, |run| {
        let figures = run.recovery.as_ref()?.figures.as_ref()?;
        (figures.events > 0).then(|| figures.replay_us as f64 / figures.events as f64)
    }),
];

fn summary(runs: &[Run], method: Method, value: Value) -> Option<Summary> {
    let these = runs.iter().filter(|run| run.method == method);
    Summary::of(these.filter_map(value))
}

fn show(arguments: &Arguments, methods: &[Method], runs: &[Run]) -> Result<(), BenchError> {
    let receives = if arguments.any { "any" } else { "its named" };
    print(&format!(
        "stencil of {0} × {0} cells, {1} iterations, {2} ranks, received from {receives} source, \
         checkpoints every {3} iterations; a rank is killed after {4:.2} of the run; s, medians and \
         quartiles",
        arguments.size,
        arguments.iterations,
        arguments.ranks,
        arguments.checkpoint_every,
        arguments.at
    ))?;
    let header = ["a fault means"]
        .into_iter()
        .chain(COLUMNS.map(|(name, _)| name));
    let row = |method: &Method| {
        let cells = COLUMNS.map(|(_, value)| cell(summary(runs, *method, value), 2));
        std::iter::once(method.name()).chain(cells).collect()
    };
    print(&table(header, methods.iter().map(row), 1))?;
    let header = ["its recovery"]
        .into_iter()
        .chain(FIGURES.map(|(name, ..)| name));
    let row = |method: &Method| {
        let Method::Logging(protocol) = method else {
            return None;
        };
        let figure = |(_, digits, _, value): Figure| cell(summary(runs, *method, value), digits);
        let cells = FIGURES.map(figure);
        Some(
            std::iter::once((*protocol).to_owned())
                .chain(cells)
                .collect(),
        )
    };
    print(&format!(
        "\n{}",
        table(header, methods.iter().filter_map(row), 1)
    ))
}

fn chart(arguments: &Arguments, methods: &[Method], runs: &[Run]) -> Chart {
    let width = BARS / methods.len() as f64;
    // Each method has its colour, and its place among the bars of each name.
    let panel = |title: &str, values: &[(&'static str, Value)]| {
        let series = methods.iter().enumerate().map(|(index, method)| {
            let offset = (index as f64 + 0.5) * width - BARS / 2.0;
            let at = |(place, (_, value)): (usize, &(&str, Value))| {
                Some(summary(runs, *method, *value)?.at(place as f64 + offset))
            };
            let points = values.iter().enumerate().filter_map(at);
            Series::new(method.name(), index, Shape::Bars(width * 0.9), points)
        });
        let all = values
            .iter()
            .flat_map(|(_, value)| runs.iter().filter_map(value));
        Panel {
            title: title.into(),
            x_name: String::new(),
            x: Axis::Names(values.iter().map(|(name, _)| (*name).to_owned()).collect()),
            y: Axis::from_zero(all),
            series: series.collect(),
            mark: None,
        }
    };
    let phases = FIGURES.into_iter();
    let phases: Vec<(&str, Value)> = phases
        .filter_map(|(_, _, name, value)| Some((name?, value)))
        .collect();
    let [without, with] = ["without a fault", "with a fault"];
    Chart {
        title: format!(
            "refrain bench rollback: stencil, {} ranks, a fault after {:.2} of the run",
            arguments.ranks, arguments.at
        ),
        remark: machine::describe(),
        panels: vec![
            panel(
                "wall time, s",
                &[
                    (without, |run| Some(run.calm.wall_s)),
                    (with, |run| Some(run.fault.wall_s)),
                ],
            ),
            panel(
                "CPU time, s",
                &[
                    (without, |run| Some(run.calm.cpu_s)),
                    (with, |run| Some(run.fault.cpu_s)),
                ],
            ),
            panel("recovery of one rank, ms", &phases),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_those_of_the_protocols_that_log() {
        let all = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Method::all(&names)
        };
        let logging = all(&["causal", "pessimist"]).unwrap();
        assert_eq!(logging[2], Method::Logging("causal"));
        assert_eq!(all(&["all"]).unwrap().len(), 2 + Member::ALL.len());
        for wrong in [&["none"][..], &["optimist"], &["ticket", "ticket"]] {
            assert!(all(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_run_names_its_way_and_its_protocol() {
        let run = |method| Run {
            repetition: 0,
            method,
            calm: Taken::default(),
            fault: Taken::default(),
            recovery: None,
        };
        let json = |method| serde_json::to_value(run(method)).unwrap();
        let logging = json(Method::Logging("ticket"));
        assert_eq!(
            (&logging["way"], &logging["protocol"]),
            (&"logging".into(), &"ticket".into())
        );
        assert_eq!(json(Method::Beginning)["way"], "beginning");
    }
}
