//! Tables and drawing.

use super::course::{BEFORE_MS, STEP_MS};
use super::{Arguments, ExperimentError, Run};
use crate::drawing::chart::{Axis, Chart, Panel, Series, Shape};
use crate::experiments::milliseconds;
use crate::experiments::report::{print, say};
use crate::experiments::summary::Summary;
use crate::netpipe::machine;
use refrain_launch::Recovery;

/// Of its rate outside a survivor keeps so much, at least.
const RATE_MIN: f64 = 0.95;
const NOTICED_MAX_MS: f64 = 5.0;
const FIRST_MESSAGE_MAX_MS: f64 = 100.0;

/// A phase of recovery, counted from the signal.
struct Phase {
    name: &'static str,
    target_ms: Option<f64>,
    /// In microseconds.
    until_us: fn(&Recovery) -> Option<u64>,
}

const PHASES: [Phase; 4] = [
    Phase {
        name: "the launcher sees the death",
        target_ms: Some(NOTICED_MAX_MS),
        until_us: |recovery| recovery.noticed_us,
    },
    Phase {
        name: "the next life is started",
        target_ms: None,
        until_us: |recovery| Some(recovery.noticed_us? + recovery.started_us),
    },
    Phase {
        name: "the first message comes again",
        target_ms: Some(FIRST_MESSAGE_MAX_MS),
        until_us: |recovery| {
            let first_us = recovery.figures.as_ref()?.first_message_us?;
            Some(recovery.noticed_us? + recovery.started_us + first_us)
        },
    },
    Phase {
        name: "it goes on where the other was",
        target_ms: None,
        until_us: |recovery| Some(recovery.noticed_us? + recovery.total_us?),
    },
];

impl Phase {
    fn summary(&self, runs: &[Run]) -> Option<Summary> {
        let all = runs.iter().flat_map(|run| &run.recoveries);
        Summary::of(all.filter_map(self.until_us).map(milliseconds))
    }
}

pub fn tables(arguments: &Arguments, runs: &[Run]) -> Result<(), ExperimentError> {
    say(&format!(
        "{} jobs, {} deaths each, messages of {} bytes; parts of the rate outside of recoveries",
        arguments.repetitions, arguments.deaths, arguments.bytes
    ))?;
    let all = |value: fn(&Run) -> &Vec<f64>| Summary::of(runs.iter().flat_map(value).copied());
    let row = |name: &str, summary: Option<Summary>, digits: usize, target: String| {
        let cell = |value: fn(Summary) -> f64| {
            summary.map_or_else(String::new, |it| format!("{:.digits$}", value(it)))
        };
        vec![
            name.to_owned(),
            summary.map_or(0, |it| it.count).to_string(),
            cell(|it| it.median),
            cell(|it| it.low),
            cell(|it| it.high),
            cell(|it| it.largest),
            target,
        ]
    };
    let header = [
        "",
        "times",
        "median",
        "a quarter below",
        "a quarter above",
        "largest",
        "target",
    ];
    print(
        &header,
        [
            row(
                "rate of the pair that survives, during recovery",
                all(|run| &run.during),
                3,
                format!("≥ {RATE_MIN}"),
            ),
            row(
                "the same when nothing fails (noise)",
                all(|run| &run.control),
                3,
                String::new(),
            ),
            row(
                "round trips a second outside",
                Summary::of(runs.iter().map(|run| run.outside_per_s)),
                0,
                String::new(),
            ),
            row(
                "standstill of the dead rank's partner, ms",
                all(|run| &run.standstill_ms),
                1,
                String::new(),
            ),
        ],
    )?;
    say("\nms after the signal")?;
    print(
        &header,
        PHASES.iter().map(|phase| {
            let target = phase.target_ms.map(|target_ms| format!("≤ {target_ms}"));
            row(
                phase.name,
                phase.summary(runs),
                2,
                target.unwrap_or_default(),
            )
        }),
    )
}

pub fn chart(arguments: &Arguments, runs: &[Run]) -> Chart {
    let steps = runs.iter().flat_map(|run| &run.around).map(Vec::len).max();
    let at_step = |step: usize| {
        let all = runs.iter().flat_map(|run| &run.around);
        let values = all.filter_map(|around| around.get(step).copied());
        let middle_ms = (step as f64 + 0.5) * STEP_MS as f64 - BEFORE_MS as f64;
        Some(Summary::of(values.filter(|value| value.is_finite()))?.at(middle_ms))
    };
    let points: Vec<_> = (0..steps.unwrap_or(0)).filter_map(at_step).collect();
    let end_ms = points.last().map_or(1.0, |point| point.x);
    let phases: Vec<_> = PHASES
        .iter()
        .enumerate()
        .filter_map(|(index, phase)| Some(phase.summary(runs)?.at(index as f64)))
        .collect();
    Chart {
        title: format!(
            "refrain bench survivors: {} deaths of a rank of another pair",
            runs.iter().map(|run| run.recoveries.len()).sum::<usize>()
        ),
        remark: format!(
            "{}; messages of {} bytes",
            machine::describe(),
            arguments.bytes
        ),
        panels: vec![
            Panel {
                title: "rate of the pair that survives, ÷ outside".into(),
                x_name: "ms since the other pair stands still".into(),
                x: Axis::Linear(-(BEFORE_MS as f64), end_ms + STEP_MS as f64),
                y: Axis::from_zero(points.iter().map(|point| point.high).chain([1.0])),
                series: vec![Series {
                    name: "median and quartiles".into(),
                    colour: 0,
                    shape: Shape::Line,
                    points,
                }],
                mark: Some(RATE_MIN),
            },
            Panel {
                title: "ms after the signal".into(),
                x_name: String::new(),
                x: Axis::Names(
                    ["death seen", "started", "first message", "goes on"]
                        .map(Into::into)
                        .to_vec(),
                ),
                y: Axis::from_zero(phases.iter().map(|point| point.high)),
                series: vec![Series {
                    name: String::new(),
                    colour: 2,
                    shape: Shape::Bars(0.6),
                    points: phases,
                }],
                mark: None,
            },
        ],
    }
}
