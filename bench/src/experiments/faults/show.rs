//! Table and drawing.

use super::{Arguments, ExperimentError, Run};
use crate::drawing::chart::{Axis, Chart, Panel, Series, Shape};
use crate::experiments::report::{print, say};
use crate::experiments::summary::Summary;
use crate::netpipe::machine;

/// What 9 faults may cost at most.
const TARGET: f64 = 1.5;

fn summary(runs: &[Run], faults: u32, value: impl Fn(&Run) -> Option<f64>) -> Option<Summary> {
    Summary::of(
        runs.iter()
            .filter(|run| run.faults == faults)
            .filter_map(value),
    )
}

pub fn table(arguments: &Arguments, runs: &[Run]) -> Result<(), ExperimentError> {
    say(&format!(
        "stencil of {0} × {0} cells, {1} iterations, {2} ranks, a checkpoint every {3} iterations; \
         medians and quartiles",
        arguments.size, arguments.iterations, arguments.ranks, arguments.checkpoint_every
    ))?;
    let text = |summary: Option<Summary>, digits| {
        summary.map_or_else(String::new, |summary| summary.text(digits))
    };
    print(
        &[
            "faults",
            "deaths",
            "whole job, s",
            "÷ no faults",
            "a recovery, ms",
            "of it replay, ms",
        ],
        (0..=arguments.faults).map(|faults| {
            vec![
                faults.to_string(),
                text(summary(runs, faults, |run| Some(run.deaths as f64)), 0),
                text(summary(runs, faults, |run| Some(run.wall_s)), 3),
                text(summary(runs, faults, |run| Some(run.relative)), 3),
                text(summary(runs, faults, |run| run.recovery_ms), 1),
                text(summary(runs, faults, |run| run.replay_ms), 1),
            ]
        }),
    )
}

pub fn chart(arguments: &Arguments, runs: &[Run]) -> Chart {
    let panel = |title: &str, target: Option<f64>, value: &dyn Fn(&Run) -> Option<f64>| Panel {
        title: title.into(),
        x_name: "faults in a run".into(),
        x: Axis::Counts(arguments.faults),
        y: Axis::from_zero(runs.iter().filter_map(value).chain(target)),
        series: vec![Series {
            name: "median and quartiles".into(),
            colour: 0,
            shape: Shape::Line,
            points: (0..=arguments.faults)
                .filter_map(|faults| Some(summary(runs, faults, value)?.at(f64::from(faults))))
                .collect(),
        }],
        mark: target,
    };
    Chart {
        title: format!(
            "refrain bench faults: stencil, {} ranks, checkpoints every {} of {} iterations",
            arguments.ranks, arguments.checkpoint_every, arguments.iterations
        ),
        remark: machine::describe(),
        panels: vec![
            panel("whole job, ÷ no faults", Some(TARGET), &|run| {
                Some(run.relative)
            }),
            panel("one recovery, ms", None, &|run| run.recovery_ms),
        ],
    }
}
