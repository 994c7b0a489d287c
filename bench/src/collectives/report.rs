//! Tables and the drawing.

use super::arguments::{Arguments, Operation};
use super::figures::{Figures, Run};
use crate::drawing::axis::{Axis, LogAxis};
use crate::drawing::chart::Series;
use crate::drawing::chart::{Chart, Panel, Shape};
use crate::machine;
use crate::report::{format_size, table};
use crate::summary::Summary;

/// The protocol with which others are compared.
const BASELINE: &str = "none";

type Value = fn(&Figures) -> Option<f64>;

const BLOCKING: Value = |figures| Some(figures.blocking_us);
const NON_BLOCKING: Value = |figures| Some(figures.overlap?.non_blocking_us);
const HIDDEN: Value = |figures| Some(figures.overlap?.hidden());
const LOG_BYTES: Value = |figures| figures.log_bytes;

/// The runs of one operation and size.
#[derive(Clone, Copy)]
struct Cell<'a> {
    runs: &'a [Run],
    operation: Operation,
    bytes: u64,
}

impl<'a> Cell<'a> {
    fn of(self, contestant: &str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| {
            let is_size = (run.operation, run.figures.bytes) == (self.operation, self.bytes);
            is_size && run.contestant == contestant
        })
    }

    fn summary(self, contestant: &str, value: Value) -> Option<Summary> {
        Summary::of(self.of(contestant).filter_map(|run| value(&run.figures)))
    }

    /// Ratio of blocking times within a repetition.
    fn ratio(self, contestant: &str, other: &str) -> Option<Summary> {
        let ratio = |run: &Run| {
            let mut others = self.of(other);
            let other = others.find(|it| it.repetition == run.repetition)?;
            Some(run.figures.blocking_us / other.figures.blocking_us)
        };
        Summary::of(self.of(contestant).filter_map(ratio))
    }

    /// The peer with the least median.
    fn better(self, peers: &[String]) -> Option<&String> {
        let median = |name: &&String| {
            self.summary(name, BLOCKING)
                .map_or(f64::INFINITY, |it| it.median)
        };
        let all = peers.iter().min_by(|a, b| median(a).total_cmp(&median(b)));
        all.filter(|name| self.of(name).next().is_some())
    }

    fn algorithm(self) -> String {
        let mut algorithms = self
            .of_all()
            .filter_map(|run| run.figures.algorithm.clone());
        algorithms.next().unwrap_or_default()
    }

    fn of_all(self) -> impl Iterator<Item = &'a Run> {
        self.runs
            .iter()
            .filter(move |run| (run.operation, run.figures.bytes) == (self.operation, self.bytes))
    }

    fn names(self) -> [String; 2] {
        let size = match self.operation {
            Operation::Barrier => String::new(),
            _ => format_size(self.bytes),
        };
        [self.operation.to_string(), size]
    }
}

/// A time with its quartiles, in three significant digits.
fn time(summary: Option<Summary>) -> String {
    summary.map_or_else(String::new, |summary| {
        summary.text(match summary.median {
            v if v < 10.0 => 2,
            v if v < 100.0 => 1,
            _ => 0,
        })
    })
}

fn median(summary: Option<Summary>, digits: usize) -> String {
    summary.map_or_else(String::new, |it| format!("{:.digits$}", it.median))
}

/// The tables. `names`: the protocols, then the peers.
pub fn text(arguments: &Arguments, runs: &[Run], names: &[String]) -> String {
    let (own, peers) = names.split_at(arguments.protocol.len());
    let cells = || {
        (arguments.operations.iter()).flat_map(move |&operation| {
            arguments.points(operation).map(move |point| Cell {
                runs,
                operation,
                bytes: point.bytes,
            })
        })
    };
    let compared: Vec<&String> = own.iter().filter(|name| *name != BASELINE).collect();
    let has_baseline = compared.len() < own.len();
    let mut header = ["operation", "bytes", "algorithm"]
        .map(str::to_owned)
        .to_vec();
    header.extend(names.iter().map(|name| format!("{name}\nµs")));
    if has_baseline {
        header.extend(compared.iter().map(|name| format!("{name}\n÷ {BASELINE}")));
    }
    if !peers.is_empty() {
        header.extend(own.iter().map(|name| format!("{name}\n÷ peer")));
    }
    header.extend(compared.iter().map(|name| format!("{name}\nlog bytes")));
    let rows = cells().map(|cell| {
        let mut row = cell.names().to_vec();
        row.push(cell.algorithm());
        row.extend(names.iter().map(|name| time(cell.summary(name, BLOCKING))));
        if has_baseline {
            let ratio = |name: &&String| median(cell.ratio(name, BASELINE), 2);
            row.extend(compared.iter().map(ratio));
        }
        if !peers.is_empty() {
            let peer = cell.better(peers);
            let ratio = |name: &String| median(peer.and_then(|peer| cell.ratio(name, peer)), 2);
            row.extend(own.iter().map(ratio));
        }
        row.extend((compared.iter()).map(|name| median(cell.summary(name, LOG_BYTES), 0)));
        row
    });
    let mut text = format!(
        "{} ranks, blocking; µs: median over {} repetitions (quartiles). ÷: median of ratios within a \
         repetition; peer: the faster one. log bytes: of all ranks, for one operation.\n{}",
        arguments.ranks,
        arguments.common.repetitions,
        table(header, rows, 3)
    );
    if arguments.blocking {
        return text;
    }
    let mut header = ["operation", "bytes"].map(str::to_owned).to_vec();
    header.extend((names.iter()).flat_map(|name| [format!("{name}\nµs"), "\nhidden".into()]));
    let rows = cells().map(|cell| {
        let mut row = cell.names().to_vec();
        for name in names {
            row.push(time(cell.summary(name, NON_BLOCKING)));
            row.push(median(cell.summary(name, HIDDEN), 2));
        }
        row
    });
    text += &format!(
        "\n\nnon-blocking; hidden: the part of it that a computation of its length hides, with {} tests\n{}",
        arguments.tests,
        table(header, rows, 2)
    );
    text
}

/// Blocking times over sizes, a panel for each operation.
pub fn chart(arguments: &Arguments, runs: &[Run], names: &[String]) -> Chart {
    let mut sizes = arguments.sizes.clone();
    sizes.sort_unstable();
    let panel = |operation: &Operation| {
        let operation = *operation;
        let cell = |bytes| Cell {
            runs,
            operation,
            bytes,
        };
        let is_barrier = operation == Operation::Barrier;
        let series = |(index, name): (usize, &String)| {
            let at = |bytes, x| Some(cell(bytes).summary(name, BLOCKING)?.at(x));
            let (shape, points) = match is_barrier {
                true => (Shape::Bars(0.6), Vec::from_iter(at(0, index as f64))),
                false => {
                    let points = sizes.iter().filter_map(|bytes| at(*bytes, *bytes as f64));
                    let is_peer = index >= arguments.protocol.len();
                    let shape = if is_peer { Shape::Dashed } else { Shape::Line };
                    (shape, points.collect())
                }
            };
            Series::new(name, index, shape, points)
        };
        let series: Vec<Series> = names.iter().enumerate().map(series).collect();
        let medians = || (series.iter()).flat_map(|it| it.points.iter().map(|point| point.y));
        let or_unit = |axis: Option<LogAxis>, kind: fn(LogAxis) -> Axis| {
            axis.map_or(Axis::Linear(0.0, 1.0), kind)
        };
        let x = match is_barrier {
            true => Axis::Names(names.to_vec()),
            false => {
                let sizes = sizes.iter().map(|it| *it as f64);
                or_unit(LogAxis::sizes(sizes), Axis::Sizes)
            }
        };
        // One that does not yield its core may take a thousand times as long.
        let y = or_unit(LogAxis::decades(medians()), Axis::Decades);
        Panel {
            title: format!("{operation}, µs"),
            x_name: String::new(),
            x,
            y,
            series,
            mark: None,
        }
    };
    // The legend takes the shapes of the first panels.
    let (bars, lines): (Vec<_>, Vec<_>) =
        (arguments.operations.iter()).partition(|it| **it == Operation::Barrier);
    Chart {
        title: format!(
            "refrain bench collectives: {} ranks, blocking, over bytes of the vector or block",
            arguments.ranks
        ),
        remark: machine::describe(),
        panels: lines.into_iter().chain(bars).map(panel).collect(),
    }
}
