//! Tables and drawing.

use super::{Arguments, ExperimentError, Run};
use crate::drawing::axis::LogAxis;
use crate::drawing::chart::{Axis, Chart, Panel, Point, Series, Shape};
use crate::experiments::report::{print, say};
use crate::experiments::summary::Summary;
use crate::netpipe::{format_size, machine};

/// The aim, and about what the paper found.
const TARGET: f64 = 2.0;

fn summary(
    runs: &[Run],
    bytes: u64,
    again: u32,
    value: impl Fn(&Run) -> Option<f64>,
) -> Option<Summary> {
    let these = runs
        .iter()
        .filter(|run| run.bytes == bytes && run.again == again);
    Summary::of(these.filter_map(value))
}

/// One token's share of a time, in µs.
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

pub fn tables(arguments: &Arguments, runs: &[Run]) -> Result<(), ExperimentError> {
    let receive = if arguments.any { "any" } else { "named" };
    let answers = arguments.answers.map(format_size);
    let answers = answers.map_or(String::new(), |size| format!(", rank 0 sends {size}"));
    say(&format!(
        "ring of {} ranks, {} at once, {receive} receive{answers}; µs a turn, and ×: how many times as fast \
         as the first time, within each job (quartiles)",
        arguments.ranks, arguments.tokens
    ))?;
    let mut header = vec!["bytes".to_owned(), "turns".into(), name(0)];
    for again in 1..=arguments.ranks {
        header.extend([name(again), "×".into()]);
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let text = |summary: Option<Summary>, digits| {
        summary.map_or_else(String::new, |summary| summary.text(digits))
    };
    print(
        &header,
        arguments.sizes.iter().map(|&bytes| {
            let mut row = vec![
                format_size(bytes),
                super::turns(arguments, bytes).to_string(),
                text(summary(runs, bytes, 0, per_turn), 2),
            ];
            for again in 1..=arguments.ranks {
                row.push(text(summary(runs, bytes, again, per_turn), 2));
                row.push(text(summary(runs, bytes, again, Run::speed_up), 2));
            }
            row
        }),
    )?;
    say("\nwhole jobs, s, and ms from a death's being seen until the first message came again")?;
    let mut header = vec!["bytes".to_owned(), name(0)];
    header.extend((1..=arguments.ranks).map(name));
    header.push("restart, ms".into());
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    print(
        &header,
        arguments.sizes.iter().map(|&bytes| {
            let wall = |again| text(summary(runs, bytes, again, |run| Some(run.wall_s)), 3);
            let mut row = vec![format_size(bytes)];
            row.extend((0..=arguments.ranks).map(wall));
            let restarts = runs.iter().filter(|run| run.bytes == bytes);
            let restarts = restarts.filter_map(|run| Some(run.restart_s? * 1e3));
            row.push(text(Summary::of(restarts), 1));
            row
        }),
    )
}

pub fn chart(arguments: &Arguments, runs: &[Run]) -> Chart {
    let sizes = || arguments.sizes.iter().map(|bytes| *bytes as f64);
    let times = runs.iter().filter_map(per_turn);
    let speeds = runs.iter().filter_map(Run::speed_up);
    let logarithmic = |axis: Option<LogAxis>, kind: fn(LogAxis) -> Axis| {
        axis.map_or(Axis::Linear(0.0, 1.0), kind)
    };
    let panel = |title: &str, y: Axis, first: u32, value: &dyn Fn(&Run) -> Option<f64>| Panel {
        title: title.into(),
        x_name: "bytes per token".into(),
        x: logarithmic(LogAxis::sizes(sizes()), Axis::Sizes),
        y,
        series: (first..=arguments.ranks)
            .map(|again| Series {
                name: name(again),
                colour: again as usize,
                shape: Shape::Line,
                points: points(arguments, runs, again, value),
            })
            .collect(),
        mark: None,
    };
    let times = logarithmic(LogAxis::decades(times), Axis::Decades);
    let speeds = logarithmic(LogAxis::decades(speeds.chain([TARGET])), Axis::Decades);
    let mut faster = panel(
        "how many times as fast the second time was",
        speeds,
        1,
        &Run::speed_up,
    );
    faster.mark = Some(TARGET);
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
                times,
                0,
                &per_turn,
            ),
            faster,
        ],
    }
}

fn points(
    arguments: &Arguments,
    runs: &[Run],
    again: u32,
    value: &dyn Fn(&Run) -> Option<f64>,
) -> Vec<Point> {
    let mut sizes = arguments.sizes.clone();
    sizes.sort_unstable();
    let at = |bytes: &u64| Some(summary(runs, *bytes, again, value)?.at(*bytes as f64));
    sizes.iter().filter_map(at).collect()
}
