//! Table and drawing.

use super::{Arguments, ExperimentError, Run, Way};
use crate::drawing::chart::{Axis, Chart, Panel, Point, Series, Shape};
use crate::experiments::report::{print, say};
use crate::experiments::summary::Summary;
use crate::netpipe::machine;

/// Two bars for each way.
const BAR: f64 = 0.38;
const NAMES: [&str; 3] = ["beginning", "common checkpoint", "message logging"];

fn summary(runs: &[Run], way: Way, value: impl Fn(&Run) -> f64) -> Option<Summary> {
    Summary::of(runs.iter().filter(|run| run.way == way).map(value))
}

pub fn table(arguments: &Arguments, runs: &[Run]) -> Result<(), ExperimentError> {
    say(&format!(
        "stencil of {0} × {0} cells, {1} iterations, {2} ranks, checkpoints every {3} iterations; a \
         rank is killed after {4:.2} of the run; s, medians and quartiles",
        arguments.size,
        arguments.iterations,
        arguments.ranks,
        arguments.checkpoint_every,
        arguments.at
    ))?;
    let header = [
        "a fault means",
        "without, wall",
        "with one",
        "more",
        "÷",
        "without, CPU",
        "with one",
        "more",
        "÷",
    ];
    print(
        &header,
        Way::ALL.map(|way| {
            let text = |value: &dyn Fn(&Run) -> f64, digits| {
                summary(runs, way, value).map_or_else(String::new, |summary| summary.text(digits))
            };
            vec![
                way.name().to_owned(),
                text(&|run| run.calm.wall_s, 2),
                text(&|run| run.fault.wall_s, 2),
                text(&|run| run.fault.wall_s - run.calm.wall_s, 2),
                text(&|run| run.fault.wall_s / run.calm.wall_s, 2),
                text(&|run| run.calm.cpu_s, 2),
                text(&|run| run.fault.cpu_s, 2),
                text(&|run| run.fault.cpu_s - run.calm.cpu_s, 2),
                text(&|run| run.fault.cpu_s / run.calm.cpu_s, 2),
            ]
        }),
    )
}

pub fn chart(arguments: &Arguments, runs: &[Run]) -> Chart {
    let panel = |title: &str, calm: &dyn Fn(&Run) -> f64, fault: &dyn Fn(&Run) -> f64| {
        let values = runs.iter().flat_map(|run| [calm(run), fault(run)]);
        let series = |name: &str, colour, value: &dyn Fn(&Run) -> f64, offset: f64| Series {
            name: name.into(),
            colour,
            shape: Shape::Bars(BAR),
            points: points(runs, value, offset),
        };
        Panel {
            title: title.into(),
            x_name: "where a job goes on after a fault".into(),
            x: Axis::Names(NAMES.map(Into::into).to_vec()),
            y: Axis::from_zero(values),
            series: vec![
                series("without a fault", 0, calm, -BAR / 2.0),
                series("with a fault", 1, fault, BAR / 2.0),
            ],
            mark: None,
        }
    };
    Chart {
        title: format!(
            "refrain bench rollback: stencil, {} ranks, a fault after {:.2} of the run",
            arguments.ranks, arguments.at
        ),
        remark: machine::describe(),
        panels: vec![
            panel("wall time, s", &|run| run.calm.wall_s, &|run| {
                run.fault.wall_s
            }),
            panel("CPU time, s", &|run| run.calm.cpu_s, &|run| run.fault.cpu_s),
        ],
    }
}

fn points(runs: &[Run], value: &dyn Fn(&Run) -> f64, offset: f64) -> Vec<Point> {
    let at =
        |(index, way): (usize, &Way)| Some(summary(runs, *way, value)?.at(index as f64 + offset));
    Way::ALL.iter().enumerate().filter_map(at).collect()
}
