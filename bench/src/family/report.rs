//! The figures as tables and as curves over the number of ranks.

use super::arguments::Arguments;
use super::model::{Load, Pattern};
use crate::drawing::axis::{Axis, LogAxis};
use crate::drawing::chart::{Chart, Panel, Point, Series, Shape};
use crate::error::BenchError;
use crate::report::{format_size, print, table};
use clap::ValueEnum;
use serde::Serialize;

/// The load of one protocol on one job.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub pattern: Pattern,
    pub ranks: u64,
    pub protocol: &'static str,
    pub load: Load,
}

type Value = fn(&Run) -> f64;

/// Commits or bytes in a second, of a job of which all iterations take this time.
fn per_second(run: &Run, of_all: f64, iterations: u64) -> f64 {
    of_all / iterations as f64 / run.load.iteration_us * 1e6
}

/// What is shown: for people, and in the drawing.
const FIGURES: [(&str, Value); 5] = [
    ("determinants a message", |run| {
        run.load.carried / run.load.messages
    }),
    ("bytes a message", |run| {
        run.load.carried_bytes / run.load.messages
    }),
    ("bytes of the longest", |run| run.load.carried_bytes_max),
    ("held a rank, at most", |run| run.load.held_max),
    ("time ÷ none", |run| {
        run.load.iteration_us / run.load.iteration_none_us
    }),
];

/// A number with a few digits.
fn number(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        _ if value < 10.0 => format!("{value:.3}"),
        _ if value < 1e6 => format!("{value:.0}"),
        _ => format!("{value:.2e}"),
    }
}

fn name(pattern: Pattern) -> String {
    let value = pattern.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().replace('-', " "))
}

pub fn show(arguments: &Arguments, runs: &[Run]) -> Result<(), BenchError> {
    let costs = arguments.costs();
    print(&format!(
        "model: {} µs between messages, {} µs until a confirmation ({} messages), {} µs of computation; {} iterations between checkpoints",
        costs.gap_us,
        costs.confirm_us,
        costs.window(),
        costs.step_us,
        costs.iterations
    ))?;
    let header = ["pattern", "ranks", "protocol"]
        .into_iter()
        .chain(FIGURES.map(|(name, _)| name))
        .chain(["commits/s", "bytes/s to loggers"]);
    let row = |run: &Run| {
        let commits = match run.load.logger_bytes > 0.0 {
            true => per_second(run, run.load.commits, costs.iterations),
            false => 0.0,
        };
        let bytes = per_second(run, run.load.logger_bytes, costs.iterations);
        let mut row = vec![
            name(run.pattern),
            format_size(run.ranks),
            run.protocol.to_owned(),
        ];
        row.extend(FIGURES.map(|(_, value)| number(value(run))));
        row.extend([number(commits), number(bytes)]);
        row
    };
    print(&table(header, runs.iter().map(row), 3))
}

/// Points of 0 are left out of logarithmic axes.
fn axis(values: impl Iterator<Item = f64>) -> Axis {
    LogAxis::decades(values).map_or(Axis::Linear(0.0, 1.0), Axis::Decades)
}

/// One panel for each figure, one line for each pattern and protocol.
pub fn chart(arguments: &Arguments, runs: &[Run]) -> Chart {
    let iterations = arguments.iterations;
    let sizes = LogAxis::sizes(arguments.ranks.iter().map(|ranks| *ranks as f64));
    let x = sizes.map_or(Axis::Linear(0.0, 1.0), Axis::Sizes);
    let panel = |title: &str, value: &dyn Fn(&Run) -> f64| {
        let mut series: Vec<Series> = Vec::new();
        for run in runs {
            let line = format!("{}, {}", name(run.pattern), run.protocol);
            let y = value(run);
            if y <= 0.0 {
                continue;
            }
            let point = Point {
                x: run.ranks as f64,
                y,
                low: y,
                high: y,
                is_marked: true,
            };
            match series.iter_mut().find(|it| it.name == line) {
                Some(known) => known.points.push(point),
                None => {
                    let is_it = |one: &&Run| one.ranks == arguments.ranks[0];
                    let mut lines = runs.iter().filter(is_it);
                    let is_line =
                        |one: &Run| (one.pattern, one.protocol) == (run.pattern, run.protocol);
                    let colour = lines.position(is_line).unwrap_or(0);
                    series.push(Series::new(line, colour, Shape::Line, [point]));
                }
            }
        }
        Panel {
            title: title.into(),
            x_name: "ranks".into(),
            x: x.clone(),
            y: axis(series.iter().flat_map(|it| &it.points).map(|point| point.y)),
            series,
            mark: None,
        }
    };
    let [_, bytes, longest, held, time] = FIGURES;
    Chart {
        title: "refrain bench family: a model, by ranks".into(),
        remark: format!(
            "{} µs between messages, {} µs until a confirmation, {} µs of computation; {iterations} iterations between checkpoints",
            arguments.gap, arguments.confirm, arguments.step
        ),
        panels: vec![
            panel("piggybacked bytes a message, mean", &bytes.1),
            panel("the same, longest", &longest.1),
            panel("determinants held at the fullest rank", &held.1),
            panel(
                "commits/s at all loggers",
                &|run: &Run| match run.load.logger_bytes > 0.0 {
                    true => per_second(run, run.load.commits, iterations),
                    false => 0.0,
                },
            ),
            panel("bytes/s to all loggers", &|run: &Run| {
                per_second(run, run.load.logger_bytes, iterations)
            }),
            panel("time of an iteration ÷ none", &time.1),
        ],
    }
}
